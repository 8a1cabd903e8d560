package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReplicaCount_FallsAfterTheRecoveryWindowOfAnOutage(t *testing.T) {
	const unavailable = -1
	for name, test := range map[string]struct {
		seconds           []int // since the attempt before
		heartbeats, count []int32
	}{
		"scaled down": {[]int{0, 1}, []int32{3, 2}, []int32{3, 2}},
		"an outage after which all connect again": {[]int{0, 1, 1, 1, 1, 1}, []int32{3, unavailable, 0, 1, 3, 2}, []int32{3, 3, 3, 3, 3, 3}},
		"one does not connect again":              {[]int{0, 1, 1, 9, 1}, []int32{3, unavailable, 2, 2, 2}, []int32{3, 3, 3, 3, 2}},
		"one more starts":                         {[]int{0, 1, 1, 9, 1}, []int32{3, unavailable, 4, 3, 3}, []int32{3, 3, 4, 4, 3}},
		"two outages":                             {[]int{0, 1, 1, 9, 1, 9, 1}, []int32{3, unavailable, 1, unavailable, 1, 1, 1}, []int32{3, 3, 3, 3, 3, 3, 1}},
		"no replica before the outage":            {[]int{0, 1, 1}, []int32{unavailable, 0, 1}, []int32{0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var c replicaCount
			var got []int32
			now := time.Unix(1_800_000_000, 0)
			for i, n := range test.heartbeats {
				now = now.Add(time.Duration(test.seconds[i]) * time.Second)
				if n == unavailable {
					c.markUnavailable()
				} else {
					c.update(now, n)
				}
				got = append(got, c.count)
			}
			if diff := cmp.Diff(test.count, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}
