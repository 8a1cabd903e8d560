package lua

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/weir-dev/weir/go/internal/limiter"
	"github.com/weir-dev/weir/go/internal/limiter/redisclient"
)

var (
	//go:embed *.lua
	embedded embed.FS
	files    fs.FS = embedded // the tag sixthalgorithm adds files
)

// Scripts are the scripts that decide or refund.
type Scripts struct {
	spend   forSlots // decides calls with several charges
	compact forSlots // the same if a counter is compact
	refund  redisclient.Script
	one     []forOne // by the number of the algorithm; the first is empty
}

// forSlots is a script for keys in one slot, and for keys in any slots of a node.
type forSlots struct{ inOneSlot, inAnySlots redisclient.Script }

// forOne are the scripts of an algorithm that decide one charge. compact is empty if the algorithm has no compact counters.
type forOne struct{ exact, compact redisclient.Script }

// Assembled returns the scripts. It assembles them once, which takes milliseconds.
var Assembled = sync.OnceValue(func() *Scripts { //nolint:gochecknoglobals // never changes
	exact := file("read_value", "counts", "mul_div") + loaders("_step", false) + file("charge", "shapes")
	compact := file("read_value", "counts", "mul_div", "compact") + loaders("_step", true) + file("charge", "shapes")
	refund := file("read_value", "counts", "mul_div", "compact") + loaders("_refund", true) + file("charge")
	return &Scripts{
		spend: forSlots{
			redisclient.NewScript("spend", file("numbers")+exact+file("values", "now", "reply", "spend")),
			redisclient.NewScript("spend_any_slot", file("numbers", "any_slot")+exact+file("now", "reply", "spend")),
		},
		compact: forSlots{
			redisclient.NewScript("spend_compact", file("numbers")+compact+file("now", "reply", "spend_compact")),
			redisclient.NewScript("spend_compact_any_slot", file("numbers", "any_slot")+compact+file("now", "reply", "spend_compact")),
		},
		refund: redisclient.NewScript("refund", file("numbers")+refund+file("now", "refund")),
		one:    scriptsForOne(),
	}
})

// All returns every script. testdata has a copy of each, so that a change to a file shows in the whole.
func (s *Scripts) All() []redisclient.Script {
	scripts := []redisclient.Script{s.spend.inOneSlot, s.compact.inOneSlot, s.refund, s.spend.inAnySlots, s.compact.inAnySlots}
	var compact []redisclient.Script
	for _, one := range s.one[1:] {
		scripts = append(scripts, one.exact)
		if one.compact.Name != "" {
			compact = append(compact, one.compact)
		}
	}
	return append(scripts, compact...)
}

// Spend is the script that decides calls with several charges, the longest one.
func (s *Scripts) Spend() redisclient.Script { return s.spend.inOneSlot }

// file returns the contents of the files, in this order.
func file(names ...string) string {
	var texts strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(files, name+".lua")
		if err != nil {
			panic(err) // a list above names a file that is not embedded
		}
		texts.Write(text)
		texts.WriteByte('\n')
	}
	return texts.String()
}

// fileIf returns a file, or "" if it does not exist.
func fileIf(name string) string {
	if _, err := fs.Stat(files, name+".lua"); err != nil {
		return ""
	}
	return file(name)
}

// algorithm returns the functions of an algorithm up to its step or refund: NAME.lua, and NAME_step.lua or NAME_refund.lua. If it has a
// NAME_ring.lua, that is in a function load_ring, which returns ring_step or ring_refund: most logs are small, and defining functions takes time.
func algorithm(name, function string) string {
	text := file(name)
	if ring := fileIf(name + "_ring"); ring != "" {
		text += "local function load_ring()\n\n" + ring + fileIf(name+"_ring"+function) + "return ring" + function + "\nend\n\n"
	}
	return text + fileIf(name+function)
}

// loaders defines the table of the functions that load an algorithm, by the names of the algorithms in scripts, see charge.lua.
func loaders(function string, withCompact bool) string {
	var functions, table strings.Builder
	var loaded []string
	define := func(name, load, prefix string, traits *limiter.Traits) {
		if !slices.Contains(loaded, load) { // algorithms can share a source
			loaded = append(loaded, load)
			fmt.Fprintf(&functions, "local function %s()\n\n%s%sreturn %s%s\nend\n\n", load, prefix, algorithm(traits.Script, function), traits.Script, function)
		}
		fmt.Fprintf(&table, "  %s = %s,\n", name, load)
	}
	for _, name := range limiter.Algorithms() {
		traits := name.Traits()
		define(string(name), "load_"+traits.Script, "", traits)
		if withCompact && traits.Compact != "" {
			define(traits.Compact, "load_compact_"+traits.Script, file("in_fields"), traits)
		}
	}
	return functions.String() + "local loaders = {\n" + table.String() + "}\n\n"
}

func scriptsForOne() []forOne {
	scripts := make([]forOne, 1+len(limiter.Algorithms()))
	capital := regexp.MustCompile(`\B[A-Z]`) // but the first: spend_one_fixed_window is the script of FixedWindow
	for _, name := range limiter.Algorithms() {
		traits := name.Traits()
		suffix, step := strings.ToLower(capital.ReplaceAllString(string(name), "_$0")), algorithm(traits.Script, "_step")
		counts, mulDiv := "", "" // functions that algorithms have in common, if this one calls them
		if strings.Contains(step, "code_counts(") {
			counts = file("counts")
		}
		if strings.Contains(step, "mul_div(") {
			mulDiv = file("mul_div")
		}
		step += "local step = " + traits.Script + "_step\n\n"
		scripts[traits.Number].exact = redisclient.NewScript("spend_one_"+suffix,
			file("numbers", "read_value")+counts+mulDiv+step+file("now", "spend_one", "reply", "reply_to_one"))
		if traits.Compact != "" {
			scripts[traits.Number].compact = redisclient.NewScript("spend_one_compact_"+suffix,
				file("numbers")+counts+mulDiv+file("compact", "in_fields")+step+file("now", "spend_one_compact", "reply", "reply_to_one"))
		}
	}
	return scripts
}
