package publish

import (
	"testing"
	"time"

	"github.com/weir-dev/weir/controllers/ruleset/selection"
	"github.com/weir-dev/weir/limiter/rules"
)

func TestSequence_OnlyGrows(t *testing.T) {
	const now = int64(1_800_000_000_000)
	a, b := &selection.RuleSet{Encoded: rules.Encoded{Revision: "a", Whole: true}}, &selection.RuleSet{Encoded: rules.Encoded{Revision: "b", Whole: true}}
	at := now
	s := &Sequence{Clock: func() time.Time { return time.UnixMilli(at) }}
	want := func(when string, set *selection.RuleSet, want int64) {
		t.Helper()
		if _, got := s.Stamp(set); got != want {
			t.Errorf("%s: sequence %d, want %d", when, got, want)
		}
	}
	want("the first rule set", a, now)
	want("the same", a, now)
	at -= 60_000
	want("another one after the clock stepped back", b, now+1)
	want("the first one again", a, now+2)
	s.Found("b", now+1)
	want("an older one is stored, for example from a backup", a, now+2)
	s.Found("b", now+2)
	want("the same sequence is stored with other rules", a, now+3)
	s.Found("b", now+10)
	want("a newer one is stored, of another operator", a, now+11)
	s.Found("a", now+20)
	want("the same rules are stored with a higher sequence", a, now+20)
	s.Found("b", 0)
	want("rules without a sequence are stored", a, now+20)
}

func TestSequence_OfAnOperatorThatStarts(t *testing.T) {
	const now = int64(1_800_000_000_000)
	set := &selection.RuleSet{Encoded: rules.Encoded{Revision: "a", Whole: true}}
	tests := map[string]struct {
		found []publication
		want  int64
	}{
		"nothing is stored":                                 {nil, now},
		"its rules are stored":                              {[]publication{{"a", 5}}, 5},
		"others are stored":                                 {[]publication{{"b", 5}}, now},
		"others are stored, by a clock ahead":               {[]publication{{"b", now + 5}}, now + 6},
		"a restored snapshot is older than others in Redis": {[]publication{{"b", 7}, {"a", 5}}, now},
		"rules without a sequence are stored":               {[]publication{{"a", 0}}, now},
		"the highest sequence":                              {[]publication{{"b", rules.MaxSequence}}, rules.MaxSequence},
	}
	for name, test := range tests {
		s := &Sequence{Clock: func() time.Time { return time.UnixMilli(now) }}
		for _, found := range test.found {
			s.Found(found.revision, found.sequence)
		}
		if _, got := s.Stamp(set); got != test.want {
			t.Errorf("%s: sequence %d, want %d", name, got, test.want)
		}
	}
}

func TestSave_OrdersTheSnapshot(t *testing.T) {
	s, set := newSaving(t), setOf(1)
	s.save(set)
	s.Sequence = &Sequence{Clock: s.Clock} // another operator, that starts without Redis
	s.last = attempt{}
	first := s.stored().Annotations[sequenceAnnotation]
	s.now = s.now.Add(time.Second)
	s.save(set)
	if got := s.stored().Annotations[sequenceAnnotation]; got != first {
		t.Errorf("an operator that starts wrote equal rules with sequence %s, want %s", got, first)
	}
	found := s.stored()
	found.Annotations[revisionAnnotation], found.Annotations[sequenceAnnotation] = "sha256:other", "1800000001500"
	if err := s.cluster.Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Millisecond)
	s.save(setOf(2))
	data := s.stored().BinaryData["rules.json.gz"]
	if got, err := rules.Sequence(data); err != nil || got != 1800000001501 || s.Problem() != "" {
		t.Errorf("after another operator: sequence %d, %v, problem %q; want 1800000001501", got, err, s.Problem())
	}
}
