package redisstore

// The scripts, for the tests.
var (
	SpendSource  = spendSource
	RefundSource = refundSource

	// Judge reads a reply of INFO.
	Judge = judge
	// Older compares versions.
	Older = older

	// Cluster starts a Redis Cluster of one node and returns its URL.
	Cluster = cluster
)

// NumbersSource is the arithmetic of the scripts, alone.
func NumbersSource() string { return numbersLua + mulDivLua }

// CountsSource is how counted windows are stored, alone.
func CountsSource() string { return numbersLua + countsLua }

// SpendOneSources are the scripts for one charge by their names.
func SpendOneSources() map[string]string {
	sources := map[string]string{}
	alone := newAlone()
	for _, s := range alone.scripts() {
		sources[s.name] = s.source
	}
	return sources
}
