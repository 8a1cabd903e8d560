package overload

import "testing"

// take lets a connection take as much as it gets, in steps.
func take(p *Pool, s *Share, step int) (taken int) {
	for p.Take(s, step) {
		taken += step
	}
	return taken
}

func TestPool_AConnectionGetsItsPartWhateverTheOthersHaveTaken(t *testing.T) {
	p := NewPool(1 << 20)
	greedy := make([]*Share, 40)
	for i := range greedy {
		greedy[i] = p.Share()
		take(p, greedy[i], 1<<10)
	}
	if used := p.Used(); used > 3<<20 {
		t.Errorf("40 connections have %d bytes of 1 MiB", used)
	}
	honest := p.Share()
	if got := take(p, honest, 1<<10); got < 1<<20/reserve {
		t.Errorf("a connection gets %d bytes", got)
	}
	p.Give(honest, 1<<10)
	if !p.Take(honest, 1<<10) {
		t.Error("a connection does not get again what it has given back")
	}
}

func TestPool_OneConnectionCanTakeTheBound(t *testing.T) {
	p := NewPool(1 << 20)
	one := p.Share()
	if got := take(p, one, 1<<10); got != 1<<20 {
		t.Errorf("it gets %d bytes", got)
	}
	p.Give(one, 1<<20)
	if p.Used() != 0 || p.shares.active.Load() != 0 {
		t.Errorf("%d bytes of %d connections are used", p.Used(), p.shares.active.Load())
	}
}

func TestGate_AdmitsAConnectionWithLittleInProgress(t *testing.T) {
	g := NewGate(1, nil)
	for range 40 {
		greedy := g.Share()
		for {
			a, admitted := g.AnnounceOf(greedy)
			if !admitted {
				break
			}
			g.BeginHeavy(&a, 1)
		}
	}
	honest := g.Share()
	for i := range 4 {
		a, admitted := g.AnnounceOf(honest)
		if !admitted || !g.BeginHeavy(&a, 1) {
			t.Fatalf("call %d of another connection is rejected", i)
		}
	}
	if g.Enter() {
		t.Error("a request without a connection is admitted")
	}
}

func TestGate_AHeavyRequestCountsAsSeveral(t *testing.T) {
	g := NewGate(1, nil)
	share := g.Share()
	var all []Announcement
	for {
		a, admitted := g.AnnounceOf(share)
		if !admitted || !g.BeginHeavy(&a, 100) {
			break
		}
		all = append(all, a)
	}
	if len(all) != perProcessor/100 {
		t.Errorf("%d requests that count 100 each are in progress", len(all))
	}
	for _, a := range all {
		g.End(a)
	}
	if g.inProgress() != 0 || share.used.Load() != 0 {
		t.Errorf("%d in progress, %d of the connection", g.inProgress(), share.used.Load())
	}
}
