package redisstore

// NumbersSource is the arithmetic of the scripts.
func NumbersSource() string { return numbersLua + mulDivLua }

// CountsSource is the encoding of counted windows.
func CountsSource() string { return numbersLua + countsLua }
