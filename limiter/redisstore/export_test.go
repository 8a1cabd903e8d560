package redisstore

// The scripts, for the tests.
var (
	SpendSource  = spendSource
	RefundSource = refundSource
)

// NumbersSource is the arithmetic of the scripts, alone.
func NumbersSource() string { return numbersLua }
