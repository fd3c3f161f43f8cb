package devices

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"berth/internal/base/ids"
	"berth/internal/model/alloc"
	"berth/internal/model/device"
	"berth/internal/model/job"
	"berth/internal/model/node"
	"berth/internal/scheduler/filter"
)

func kind(name string, gib int64, instances ...string) device.Group {
	g := device.Group{Vendor: "acme", Type: "gpu", Name: name, Attributes: map[string]device.Value{
		"memory": {Int: &gib, Unit: "GiB"},
	}}
	for _, id := range instances {
		id, ill := strings.CutSuffix(id, "!")
		i := device.Instance{ID: id, Healthy: !ill}
		if ill {
			i.Reason = "worn out"
		}
		g.Instances = append(g.Instances, i)
	}
	return g
}

func with(groups ...device.Group) *node.Node {
	return &node.Node{ID: "n", Resources: node.Resources{Devices: groups}}
}

func asks(all ...*job.RequestedDevice) *job.TaskGroup {
	return &job.TaskGroup{Tasks: []*job.Task{{Name: "t", Resources: &job.Resources{Devices: all}}}}
}

func must(attribute, operator, value string) []*job.Constraint {
	return []*job.Constraint{{LTarget: attribute, Operand: operator, RTarget: value}}
}

func owner(id ids.Alloc, k device.Group, instances ...string) *alloc.Alloc {
	return &alloc.Alloc{ID: id, Job: "other", Resources: alloc.Resources{Tasks: map[string]alloc.TaskResources{
		"t": {Devices: []device.Given{{Kind: k.Kind(), IDs: instances}}}}}}
}

// one asks for a device of which something holds; "": anything.
func one(attribute, operator, value string) *job.RequestedDevice {
	d := &job.RequestedDevice{Name: "gpu"}
	if attribute != "" {
		d.Constraints = must(attribute, operator, value)
	}
	return d
}

func that(attribute, operator, value string) *job.TaskGroup {
	return asks(one(attribute, operator, value))
}

// wish asks for a device, better one for which something holds.
func wish(attribute, value string, weight int8) *job.TaskGroup {
	return asks(&job.RequestedDevice{Name: "gpu", Affinities: []*job.Affinity{{
		LTarget: attribute,
		RTarget: value,
		Weight:  weight,
	}}})
}

// chosen is what a group would get: "small:a,b"; empty: nothing.
func chosen(f *Free, g *job.TaskGroup, assumeEnded bool) string {
	c, ok := f.Choose(NewAsk(g), assumeEnded)
	if !ok {
		return ""
	}
	var out []string
	for _, d := range c.Given["t"] {
		out = append(out, d.Name+":"+strings.Join(d.IDs, ","))
	}
	return strings.Join(out, " ")
}

// Given a node with two kinds of devices, when jobs ask for some, then they get healthy ones that fit, of one kind
// each.
func TestWhatIsAskedForIsGiven(t *testing.T) {
	n := with(kind("large", 16, "x"), kind("small", 4, "a!", "b", "c"))
	for name, c := range map[string]struct {
		ask  *job.TaskGroup
		want string
	}{
		"by type":       {asks(&job.RequestedDevice{Name: "gpu", Count: 1}), "large:x"},
		"two":           {asks(&job.RequestedDevice{Name: "gpu", Count: 2}), "small:b,c"},
		"three":         {asks(&job.RequestedDevice{Name: "gpu", Count: 3}), ""},
		"by model":      {asks(&job.RequestedDevice{Name: "acme/gpu/small", Count: 1}), "small:b"},
		"another":       {asks(&job.RequestedDevice{Name: "fpga", Count: 1}), ""},
		"not too large": {that("${device.attr.memory}", "<", "8 GiB"), "small:b"},
		"large enough":  {that("${device.attr.memory}", ">=", "9000 MiB"), "large:x"},
		"of no unit":    {that("${device.attr.memory}", ">", "1"), ""},
		"a named one":   {that("${device.ids}", "set_contains", "c, z"), "small:c"},
		"an ill one":    {that("${device.ids}", "=", "a"), ""},
		"a pattern":     {that("${device.model}", "regexp", "^sm"), "small:b"},
		"that is set":   {that("${device.attr.cores}", "is_set", ""), ""},
		"a wish":        {wish("${device.model}", "small", 50), "small:b"},
		"against":       {wish("${device.model}", "large", -50), "small:b"},
		"one of each, the vague one first": {asks(&job.RequestedDevice{Name: "gpu"},
			&job.RequestedDevice{Name: "acme/gpu/large"}), "large:x small:b"},
		"two vague ones, of which one leaves room": {asks(&job.RequestedDevice{Name: "gpu", Count: 1},
			&job.RequestedDevice{Name: "gpu", Count: 1}, &job.RequestedDevice{Name: "gpu", Count: 1}),
			"large:x small:b small:c"},
		"goes back": {asks(&job.RequestedDevice{Name: "gpu", Count: 1,
			Constraints: must("${device.attr.memory}", ">", "1 GiB")}, &job.RequestedDevice{Name: "gpu", Count: 2}),
			"large:x small:b,c"},
	} {
		if got := chosen(NewFree(n), c.ask, false); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	c, _ := NewFree(n).Choose(NewAsk(asks(&job.RequestedDevice{Name: "gpu", Affinities: []*job.Affinity{
		{LTarget: "${device.model}", RTarget: "small", Weight: 60},
		{LTarget: "${device.vendor}", RTarget: "nobody", Weight: 20},
	}})), false)
	if c.Score != 0.75 {
		t.Errorf("three quarters of the wishes are %v", c.Score)
	}
}

// Given devices that allocs have, when others ask for some, then each is one's alone until its processes are gone, and
// the planner refuses what the plan could not know.
func TestADeviceIsOnesAlone(t *testing.T) {
	small := kind("small", 4, "a", "b", "ill!")
	any := that("", "", "")
	f := NewFree(with(small))
	f.Hold(owner("first", small, "a"), false)
	if got := chosen(f, any, false); got != "small:b" {
		t.Errorf("beside another: %q", got)
	}
	f.Hold(owner("second", small, "b"), true)
	if got := chosen(f, any, false); got != "" {
		t.Errorf("while processes use it: %q", got)
	}
	if got := chosen(f, any, true); got != "small:b" {
		t.Errorf("once they have ended: %q", got)
	}
	reason, hint := f.Shortage(NewAsk(any), false)
	if !strings.Contains(reason, "0 of 2 healthy ones are free") || !strings.Contains(reason, "first") ||
		!strings.Contains(hint, "stop that job") {
		t.Errorf("%s (%s)", reason, hint)
	}
	f = NewFree(with(small))
	for i, c := range []struct {
		id   string
		want bool
	}{{"a", true}, {"a", false}, {"ill", false}, {"c", false}, {"b", true}} {
		if got := f.Takes(owner(ids.Alloc(fmt.Sprint(i)), small, c.id)); got != c.want {
			t.Errorf("%q is taken: %t", c.id, got)
		}
	}
}

// Given nodes that cannot serve a group, when it is said why, then the device, the constraint or the illness is named.
func TestWhyANodeHasNotWhatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		n   *node.Node
		d   *job.RequestedDevice
		say string
	}{
		"none": {with(), one("", "", ""), `no device "gpu"`},
		"ill":  {with(kind("small", 4, "a!")), one("", "", ""), "small[a] is unhealthy: worn out"},
		"few": {with(kind("small", 4, "a")), &job.RequestedDevice{Name: "gpu", Count: 2},
			"and 1 can be given"},
		"constraint":   {with(kind("small", 4, "a")), one("${device.attr.memory}", ">", "8 GiB"), `it has "4 GiB"`},
		"no such":      {with(kind("small", 4, "a")), one("${device.attr.cores}", ">", "8"), "it has no such value"},
		"unreadable":   {with(kind("small", 4, "a")), one("${device.model}", "regexp", "("), "cannot be read"},
		"named others": {with(kind("small", 4, "a")), one("${device.ids}", "=", "z"), "0 can be given"},
	} {
		f := &Filter{}
		if !f.Prepare(&filter.Request{Group: asks(c.d)}) || f.Check(c.n) != KeyMissing {
			t.Errorf("%s: it passes", name)
			continue
		}
		if reason, hint := f.Explain(c.n); !strings.Contains(reason, c.say) || hint == "" {
			t.Errorf("%s: %s (%s)", name, reason, hint)
		}
	}
	if (&Filter{}).Prepare(&filter.Request{Group: asks()}) {
		t.Error("who asks for nothing is looked at")
	}
	if !reflect.DeepEqual(NewAsk(asks()), (*Ask)(nil)) {
		t.Error("nothing is something")
	}
}
