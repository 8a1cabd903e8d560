package report

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable_AlignsItsColumns(t *testing.T) {
	var got strings.Builder
	err := Table{Title: "Title", Rows: [][]string{
		{"callers", "1: /s", "÷ zset"},
		{"weir/x", "100", Times(2)},
		{"ümlaut/long", Decimals(1, 12345.67), Times(math.NaN())},
	}}.Write(&got)
	if err != nil {
		t.Fatal(err)
	}
	const want = `
Title
  callers        1: /s  ÷ zset
  weir/x           100   2.00×
  ümlaut/long  12345.7       –
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
