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
					c.update(now, n, 0)
				}
				got = append(got, c.count)
			}
			if diff := cmp.Diff(test.count, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicaCount_CountsReplicasThatSendNoHeartbeatsAnyMore(t *testing.T) {
	const unavailable = -1
	type attempt struct {
		seconds           int // since the attempt before
		heartbeats, ready int32
		want              Silent
	}
	for name, attempts := range map[string][]attempt{
		"all send heartbeats":                {{0, 3, 3, Silent{}}, {5, 3, 3, Silent{}}},
		"a new pod has not sent one yet":     {{0, 2, 2, Silent{}}, {1, 2, 3, Silent{}}, {20, 2, 3, Silent{}}, {1, 3, 3, Silent{}}},
		"one cannot reach Redis":             {{0, 3, 3, Silent{}}, {1, 2, 3, Silent{1, false}}, {9, 2, 3, Silent{1, false}}, {1, 2, 3, Silent{1, true}}, {1, 3, 3, Silent{}}},
		"one ends":                           {{0, 3, 3, Silent{}}, {1, 3, 2, Silent{}}, {1, 2, 2, Silent{}}},
		"the heartbeats are deleted":         {{0, 3, 3, Silent{}}, {1, 0, 3, Silent{3, false}}, {1, 3, 3, Silent{}}},
		"an outage":                          {{0, 3, 3, Silent{}}, {1, unavailable, 3, Silent{}}, {60, 1, 3, Silent{2, false}}, {1, 3, 3, Silent{}}},
		"an outage, without ready pods":      {{0, 3, 0, Silent{}}, {1, unavailable, 0, Silent{}}, {60, 1, 0, Silent{2, false}}, {10, 1, 0, Silent{}}},
		"the operator has started":           {{0, 1, 3, Silent{2, false}}, {1, 3, 3, Silent{}}},
		"no pod is ready":                    {{0, 3, 3, Silent{}}, {1, 0, 0, Silent{}}},
		"silent again: the time starts over": {{0, 3, 3, Silent{}}, {1, 2, 3, Silent{1, false}}, {9, 3, 3, Silent{}}, {1, 2, 3, Silent{1, false}}},
	} {
		var c replicaCount
		now := time.Unix(1_800_000_000, 0)
		for i, a := range attempts {
			now = now.Add(time.Duration(a.seconds) * time.Second)
			var got Silent
			if a.heartbeats == unavailable {
				c.markUnavailable()
			} else {
				got = c.update(now, a.heartbeats, a.ready)
			}
			if got != a.want {
				t.Errorf("%s: attempt %d: %+v, want %+v", name, i, got, a.want)
			}
		}
	}
}
