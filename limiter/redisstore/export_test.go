package redisstore

// SpendSource and NumbersSource show the scripts to the tests.
var SpendSource = spendSource

// NumbersSource is the arithmetic of the scripts, alone.
func NumbersSource() string { return numbersLua }
