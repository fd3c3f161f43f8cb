package jobspec

import (
	"fmt"
	"reflect"

	"berth/api"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// constraintShortcuts are the attributes that set operator and value at once.
var constraintShortcuts = []string{"regexp", "version", "semver", "set_contains", "set_contains_any", "set_contains_all", "distinct_hosts", "distinct_property"}

// affinityShortcuts are those of an affinity.
var affinityShortcuts = []string{"regexp", "version", "semver", "set_contains", "set_contains_any", "set_contains_all"}

// jobSpecials are the types of a job file that need more than their tags.
var jobSpecials = map[reflect.Type]special{
	reflect.TypeFor[api.Constraint]():      {extras: constraintShortcuts, finish: finishConstraint},
	reflect.TypeFor[api.Affinity]():        {extras: affinityShortcuts, finish: finishAffinity},
	reflect.TypeFor[api.NetworkResource](): {finish: finishNetwork},
	reflect.TypeFor[api.PeriodicConfig]():  {finish: finishPeriodic},
	reflect.TypeFor[api.Task]():            {finish: finishTask},
	reflect.TypeFor[api.VolumeRequest](): {finish: finishVolume, refusal: map[string]string{
		"config": "write source beside type and read_only: volume \"name\" { type = \"host\"  source = \"…\" }",
	}},
}

func finishConstraint(d *decoder, v reflect.Value, at hcl.Range, extras []extra) {
	c := v.Addr().Interface().(*api.Constraint)
	shortcut(d, &c.LTarget, &c.Operand, &c.RTarget, at, extras)
}

func finishAffinity(d *decoder, v reflect.Value, at hcl.Range, extras []extra) {
	a := v.Addr().Interface().(*api.Affinity)
	shortcut(d, &a.LTarget, &a.Operand, &a.RTarget, at, extras)
}

// shortcut applies the attributes that set operator and value at once, and the default operator.
func shortcut(d *decoder, left, operand, right *string, at hcl.Range, extras []extra) {
	used := ""
	for _, e := range extras {
		if e.value.IsNull() {
			continue
		}
		if used != "" || *operand != "" {
			d.report.add(e.rng, "%s sets operator and value; there is another operator already", e.name)
			return
		}
		used = e.name
		switch e.name {
		case "distinct_hosts":
			on, err := convert.Convert(e.value, cty.Bool)
			if err != nil || on.IsNull() {
				d.report.add(e.rng, "distinct_hosts must be true or false, not %s", describe(e.value))
				return
			}
			*right = fmt.Sprint(on.True())
		case "distinct_property":
			text, err := toText(e.value)
			if err != nil {
				d.report.add(e.rng, "distinct_property %s", err)
				return
			}
			*left = text
		default:
			text, err := toText(e.value)
			if err != nil {
				d.report.add(e.rng, "%s %s", e.name, err)
				return
			}
			if *right != "" {
				d.report.add(e.rng, "%s sets operator and value; remove value", e.name)
				return
			}
			*right = text
		}
		*operand = e.name
	}
	if used == "set_contains_all" {
		*operand = "set_contains"
	}
	if *operand == "" {
		*operand = "="
		if *left == "" {
			d.report.add(at, "the block needs an attribute, and a value to compare it with")
		}
	}
}

// finishNetwork sorts ports into static and dynamic ones.
func finishNetwork(d *decoder, v reflect.Value, at hcl.Range, _ []extra) {
	n := v.Addr().Interface().(*api.NetworkResource)
	seen := map[string]bool{}
	var dynamic []api.Port
	for i, p := range n.DynamicPorts {
		from := fmt.Sprintf("DynamicPorts[%d]", i)
		rng := d.at[n][from]
		if rng.Filename == "" {
			rng = at
		}
		if seen[p.Label] {
			d.report.add(rng, "the network has two ports with the label %q; rename one", p.Label)
		}
		seen[p.Label] = true
		if p.Value < 0 || p.Value > 65535 {
			d.report.add(rng, "the port %q has the static number %d, which is not between 1 and 65535", p.Label, p.Value)
		}
		if p.Value > 0 {
			d.at.rename(n, from, fmt.Sprintf("ReservedPorts[%d]", len(n.ReservedPorts)))
			n.ReservedPorts = append(n.ReservedPorts, p)
			continue
		}
		d.at.rename(n, from, fmt.Sprintf("DynamicPorts[%d]", len(dynamic)))
		dynamic = append(dynamic, p)
	}
	n.DynamicPorts = dynamic
}

func finishPeriodic(_ *decoder, v reflect.Value, _ hcl.Range, _ []extra) {
	cron := "cron"
	v.Addr().Interface().(*api.PeriodicConfig).SpecType = &cron
}

// finishTask takes the default identity out of the named ones.
func finishTask(d *decoder, v reflect.Value, _ hcl.Range, _ []extra) {
	t := v.Addr().Interface().(*api.Task)
	var named []*api.WorkloadIdentity
	for _, id := range t.Identities {
		if id.Name != "" && id.Name != "default" {
			named = append(named, id)
			continue
		}
		if t.Identity != nil {
			d.report.add(d.at[id][""], "the task %q has two identities named default; rename one", t.Name)
		}
		t.Identity = id
	}
	t.Identities = named
}

// finishVolume checks what only the author's file can place.
func finishVolume(d *decoder, v reflect.Value, at hcl.Range, _ []extra) {
	vol := v.Addr().Interface().(*api.VolumeRequest)
	if d.report.failed() {
		return
	}
	switch {
	case vol.Type == "":
		d.report.add(at, "the volume %q has no type; write type = \"csi\" or type = \"host\"", vol.Name)
	case vol.Type != "csi" && vol.Type != "host":
		d.report.add(at, "the volume %q has the type %q; there are csi and host", vol.Name, vol.Type)
	case vol.Source == "":
		d.report.add(at, "the volume %q has no source; name the volume, as in source = \"data\"", vol.Name)
	}
}
