package lua

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/redisclient"
)

// The parts of the scripts.
var (
	//go:embed numbers.lua
	numbersLua string
	//go:embed counts.lua
	countsLua string
	//go:embed mul_div.lua
	mulDivLua string
	//go:embed *.lua
	embedded embed.FS
	parts    fs.FS = embedded // the tag sixthalgorithm adds files
)

// MaxWholeLog is the greatest limit, in units, of a log that is read and written as a whole: MAX_WHOLE_LOG of the scripts.
const MaxWholeLog = 256

// algorithmSource is the Lua source of one algorithm.
type algorithmSource struct {
	name         string
	functions    string // prefix of the names of its functions
	shared       string // functions that step and refund use
	step, refund string
}

// algorithmSources are in the order in which they appear in the scripts. Algorithms can share a source.
func algorithmSources() []algorithmSource {
	var all, compact []algorithmSource
	for _, algorithm := range limiter.Algorithms() {
		traits := algorithm.Traits()
		if slices.ContainsFunc(all, func(a algorithmSource) bool { return a.name == traits.Script }) {
			continue
		}
		source := sourceOf(traits)
		all = append(all, source)
		if traits.Compact != "" {
			compact = append(compact, compactSource(source))
		}
	}
	return append(all, compact...)
}

// sourceOf reads the source of an algorithm: the functions in name.lua and name_refund.lua. If there is a name_ring.lua, the functions of a
// ring are defined on first use: name_step.lua and name_refund.lua call load_ring.
func sourceOf(traits *limiter.Traits) algorithmSource {
	name := traits.Script
	source := algorithmSource{name: name, functions: name, shared: part(name), refund: part(name + "_refund")}
	if ring := part(name + "_ring"); ring != "" {
		source.step = ringFunction("ring_step", ring) + part(name+"_step")
		source.refund = ringFunction("ring_refund", ring+part(name+"_ring_refund")) + source.refund
	}
	return source
}

// part returns name.lua, or "" if there is no such file.
func part(name string) string {
	text, _ := fs.ReadFile(parts, name+".lua")
	return string(text)
}

// ringFunction defines load_ring, which returns a function of a ring: most logs are small, and defining functions takes time.
func ringFunction(name, source string) string {
	return fmt.Sprintf("\nlocal function load_ring()\n%sreturn %s\nend\n\n", source, name)
}

// compactSource is the source of an algorithm for compact counters: the same functions on values in blocks.
func compactSource(counted algorithmSource) algorithmSource {
	alias := func(part string) string {
		return fmt.Sprintf("\nlocal counted_%s = %s_%[1]s\n", part, counted.functions)
	}
	return algorithmSource{
		name:      "compact_" + counted.name,
		functions: "compact",
		shared:    part("compact") + "\n" + counted.shared + alias("step") + part("compact_step"),
		refund:    counted.refund + alias("refund") + part("compact_refund"),
	}
}

// spendNow defines the time of a run that decides several charges.
const spendNow = "local now = current_time(ARGV[1])\n"

// singleReply ends a run for one charge that spend_one.lua does not end.
const singleReply = "add_decision(remaining, reset_after, wait, at)\nreply[size + 1] = corrupt\nreturn reply\n"

// declaredKeys begins the scripts whose keys are those of EVALSHA.
const declaredKeys = "local prefetched\n"

// Scripts are the scripts that decide or refund.
type Scripts struct {
	Spend   redisclient.Script // decides calls with several charges
	AnySlot redisclient.Script // the same with keys in several slots of a node
	Refund  redisclient.Script
	single  singleScripts
}

// Assembled returns the scripts. It assembles them once, which takes milliseconds.
var Assembled = sync.OnceValue(func() *Scripts { //nolint:gochecknoglobals // never changes
	return &Scripts{
		Spend:   newSpendScript("spend", declaredKeys),
		AnySlot: newSpendScript("spend_any_slot", part("any_slot")),
		Refund:  newRefundScript(),
		single:  newSingleScripts(),
	}
})

// All returns every script. testdata has a copy of each, so that a change to a part shows in the whole.
func (s *Scripts) All() []redisclient.Script {
	return append([]redisclient.Script{s.Spend, s.Refund, s.AnySlot}, s.single.all()...)
}

// ForCharge returns the script that decides one charge on limit.
func (s *Scripts) ForCharge(limit limiter.Limit, isCompact bool) redisclient.Script {
	if isCompact {
		return s.single[limit.Traits().Number].compact
	}
	return s.single[limit.Traits().Number].script
}

func newSpendScript(name, keys string) redisclient.Script {
	return redisclient.NewScript(name,
		assemble(keys, func(a algorithmSource) string { return a.shared + a.step + "return " + a.functions + "_step\n" }, spendNow+part("reply")+"\n"+part("spend")))
}

func newRefundScript() redisclient.Script {
	return redisclient.NewScript("refund",
		assemble(declaredKeys, func(a algorithmSource) string { return a.shared + a.refund + "return " + a.functions + "_refund\n" }, part("refund")))
}

// assemble returns a script for all algorithms. keys defines prefetched, the values of KEYS if they have been read. Each algorithm is a
// function that defines its functions only when it is called, so a run does not define those that it does not use.
func assemble(keys string, body func(algorithmSource) string, script string) string {
	var b strings.Builder
	b.WriteString(numbersLua + "\n" + keys + "\n" + countsLua + "\n" + mulDivLua)
	for _, a := range algorithmSources() {
		fmt.Fprintf(&b, "\nlocal function load_%s()\n%send\n", a.name, body(a))
	}
	fmt.Fprintf(&b, "\n%s\n%s\n%s", withAlgorithms(part("load")), withAlgorithms(part("arguments")), script)
	return inlineConstants(b.String())
}

// withAlgorithms replaces what depends on the algorithms: the line LOAD_EACH_ALGORITHM(name), and the conditions IS_QUEUE(name) and so on.
func withAlgorithms(source string) string {
	var load strings.Builder
	for _, algorithm := range limiter.Algorithms() {
		traits := algorithm.Traits()
		fmt.Fprintf(&load, "  if name == '%s' then return load_%s() end\n", algorithm, traits.Script)
		if traits.Compact != "" {
			fmt.Fprintf(&load, "  if name == '%s' then return load_compact_%s() end\n", traits.Compact, traits.Script)
		}
	}
	return strings.NewReplacer("  LOAD_EACH_ALGORITHM(name)\n", load.String(),
		"IS_QUEUE(name)", nameIs("", func(t *limiter.Traits) bool { return t.Queues }),
		"IS_LOG(name)", nameIs("", func(t *limiter.Traits) bool { return t.Log }),
		"IS_COMPACT(name)", nameIs("Compact", func(t *limiter.Traits) bool { return t.Compact != "" }),
		"HAS_ODD_KEY(name)", nameIs("Compact", func(t *limiter.Traits) bool { return t.Compact != "" && t.Windows > 1 }),
	).Replace(source)
}

// nameIs returns the condition that name is the prefix and an algorithm with a trait, in Lua.
func nameIs(prefix string, trait func(*limiter.Traits) bool) string {
	var names []string
	for _, algorithm := range limiter.AlgorithmsWith(trait) {
		names = append(names, fmt.Sprintf("name == '%s%s'", prefix, algorithm))
	}
	return cmp.Or(strings.Join(names, " or "), "false")
}

// singleScripts decide one charge, by the number of the algorithm. The first is empty. Each contains one algorithm only: for one charge,
// defining the functions of the spend script takes longer than everything else.
type singleScripts []struct{ script, compact redisclient.Script } // compact is empty if the algorithm has no compact counters

func newSingleScripts() singleScripts {
	one := func(name string, source algorithmSource, readsValue, queues, isCompact bool) redisclient.Script {
		code := source.shared + source.step
		return redisclient.NewScript("spend_one_"+name,
			inlineConstants(fmt.Sprintf("%s\n%s%s\nlocal step = %s_step\nlocal READS_VALUE, QUEUES, IS_COMPACT = %t, %t, %t\n\n%s\n%s\n%s",
				numbersLua, helpers(code), code, source.functions, readsValue, queues, isCompact, part("spend_one"), part("reply"), singleReply)))
	}
	capital := regexp.MustCompile(`\B[A-Z]`) // but the first: spend_one_fixed_window is the script of FixedWindow
	all := make(singleScripts, 1+len(limiter.Algorithms()))
	for _, algorithm := range limiter.Algorithms() {
		traits := algorithm.Traits()
		name, source := strings.ToLower(capital.ReplaceAllString(string(algorithm), "_$0")), sourceOf(traits)
		all[traits.Number].script = one(name, source, !traits.Log, traits.Queues, false)
		if traits.Compact != "" {
			all[traits.Number].compact = one("compact_"+name, compactSource(source), false, false, true)
		}
	}
	return all
}

// helpers returns the functions that code uses, of those that several algorithms have in common.
func helpers(code string) (used string) {
	if strings.Contains(code, "code_counts(") { // encode_counts or decode_counts
		used += countsLua + "\n"
	}
	if strings.Contains(code, "mul_div(") {
		used += mulDivLua + "\n"
	}
	return used
}

// all returns the scripts, those of compact counters last.
func (s singleScripts) all() (scripts []redisclient.Script) {
	var compact []redisclient.Script
	for _, of := range s[1:] {
		scripts = append(scripts, of.script)
		if of.compact.Name != "" {
			compact = append(compact, of.compact)
		}
	}
	return append(scripts, compact...)
}
