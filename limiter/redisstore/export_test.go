package redisstore

// The scripts, for the tests.
var (
	SpendSource  = spendSource
	RefundSource = refundSource

	// Judge reads a reply of INFO.
	Judge = judge

	// Cluster starts a Redis Cluster of one node and returns its URL.
	Cluster = cluster
)

// NumbersSource is the arithmetic of the scripts, alone.
func NumbersSource() string { return numbersLua }
