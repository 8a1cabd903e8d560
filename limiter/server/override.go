package server

import (
	"slices"
	"strconv"
	"time"

	"github.com/weir-dev/weir/limiter"
	"github.com/weir-dev/weir/limiter/engine"
	"github.com/weir-dev/weir/limiter/reply"
)

// defectLimit is an override that cannot be used: the limit of the policy remains. Its numbers can come from a token of the client.
const defectLimit = "limit"

// override reads {"limit":5,"windowMs":60000,"withoutCost":false}.
func (d *decoder) override() *reply.Problem {
	if kind := d.json.kind(); kind != kindObject {
		return wrongKind("override", kindObject, kind)
	}
	o, seen := &engine.Override{}, make([]string, 0, 3)
	for name := range d.json.members() {
		if slices.Contains(seen, name) {
			return badField("override."+clip(name), "is present more than once")
		}
		seen = append(seen, name)
		kind, want := d.json.kind(), kindNumber
		switch name {
		case "limit", "windowMs":
		case "withoutCost":
			want = kindBool
		default:
			return badField("override."+clip(name), "is not a field of an override; the fields are limit, windowMs, withoutCost")
		}
		if kind != want {
			return wrongKind("override."+name, want, kind)
		}
		switch text := d.json.literal(); name {
		case "limit":
			o.Units, _ = strconv.ParseInt(text, 10, 64) // a fraction is 0, which is no limit of an override
		case "windowMs":
			milliseconds, _ := strconv.ParseInt(text, 10, 64)
			o.Window = time.Duration(min(milliseconds, limiter.MaxWindow.Milliseconds()+1)) * time.Millisecond
		default:
			o.WithoutCost = text == "true"
		}
	}
	for _, name := range []string{"limit", "windowMs"} {
		if !slices.Contains(seen, name) {
			return badField("override."+name, "is missing")
		}
	}
	isWindow := o.Window >= limiter.MinWindow && o.Window <= limiter.MaxWindow && o.Window%time.Second == 0
	if o.Units < 1 || o.Units > limiter.MaxUnits || !isWindow { // the engine ignores what exceeds the bounds of an algorithm
		d.defect(defectLimit)
		return nil
	}
	d.check.Override = o
	return nil
}
