package jobspec

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"berth/api"
	"berth/jobspec/hclfile"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// constraintShortcuts are the attributes that set operator and value at once.
var constraintShortcuts = []string{"regexp", "version", "semver", "set_contains", "set_contains_any",
	"set_contains_all", "distinct_hosts", "distinct_property", "is_set", "is_not_set"}

// affinityShortcuts are those of an affinity.
var affinityShortcuts = []string{"regexp", "version", "semver", "set_contains", "set_contains_any", "set_contains_all"}

// jobSpecials are the types of a job file that need more than their tags.
var jobSpecials = map[reflect.Type]hclfile.Special{
	reflect.TypeFor[api.Constraint]():      {Extras: constraintShortcuts, Finish: finishConstraint},
	reflect.TypeFor[api.Affinity]():        {Extras: affinityShortcuts, Finish: finishAffinity},
	reflect.TypeFor[api.NetworkResource](): {Finish: finishNetwork},
	reflect.TypeFor[api.PeriodicConfig]():  {Finish: finishPeriodic},
	reflect.TypeFor[api.Task]():            {Finish: finishTask},
	reflect.TypeFor[api.Template]():        {Finish: finishTemplate},
	reflect.TypeFor[api.VolumeRequest](): {Finish: finishVolume, Refusal: map[string]string{
		"config": "write source beside type and read_only: volume \"name\" { type = \"host\"  source = \"…\" }",
	}},
	reflect.TypeFor[api.VolumeCreate](): {Refusal: map[string]string{
		"access_mode":     "it stands in the volume block itself",
		"attachment_mode": "it stands in the volume block itself",
		"mount_options":   "they stand in the volume block itself",
		"capability":      "the volume is made for access_mode and attachment_mode of the volume block",
		"capacity":        "write capacity_min and capacity_max",
		"id":              "it is the source of the volume block",
		"secrets": "a job file is no place for secrets: everybody who may read the job reads it; make the volume " +
			"with berth volume create <file>",
		"snapshot_id":      "make a volume from a snapshot with berth volume create <file>",
		"clone_id":         "make a clone with berth volume create <file>",
		"topology_request": "make a volume for a place with berth volume create <file>",
	}},
}

func finishConstraint(d *hclfile.Decoder, v reflect.Value, at hcl.Range, extras []hclfile.Extra) {
	c := v.Addr().Interface().(*api.Constraint)
	shortcut(d, &c.LTarget, &c.Operand, &c.RTarget, at, extras)
}

func finishAffinity(d *hclfile.Decoder, v reflect.Value, at hcl.Range, extras []hclfile.Extra) {
	a := v.Addr().Interface().(*api.Affinity)
	shortcut(d, &a.LTarget, &a.Operand, &a.RTarget, at, extras)
}

// shortcut applies the attributes that set operator and value at once, and the default operator.
func shortcut(d *hclfile.Decoder, left, operand, right *string, at hcl.Range, extras []hclfile.Extra) {
	used := ""
	for _, e := range extras {
		if e.Value.IsNull() {
			continue
		}
		if used != "" || *operand != "" {
			d.Report.Add(e.Range, "%s sets operator and value; there is another operator already", e.Name)
			return
		}
		used = e.Name
		switch e.Name {
		case "distinct_hosts":
			on, err := convert.Convert(e.Value, cty.Bool)
			if err != nil || on.IsNull() {
				d.Report.Add(e.Range, "distinct_hosts must be true or false, not %s", hclfile.Describe(e.Value))
				return
			}
			*right = fmt.Sprint(on.True())
		case "is_set", "is_not_set":
			on, err := convert.Convert(e.Value, cty.Bool)
			if err != nil || on.IsNull() || on.False() {
				d.Report.Add(e.Range, "%s must be true, not %s; for the opposite write is_set or is_not_set", e.Name,
					hclfile.Describe(e.Value))
				return
			}
		case "distinct_property":
			text, err := hclfile.ToText(e.Value)
			if err != nil {
				d.Report.Add(e.Range, "distinct_property %s", err)
				return
			}
			*left = text
		default:
			text, err := hclfile.ToText(e.Value)
			if err != nil {
				d.Report.Add(e.Range, "%s %s", e.Name, err)
				return
			}
			if *right != "" {
				d.Report.Add(e.Range, "%s sets operator and value; remove value", e.Name)
				return
			}
			*right = text
		}
		*operand = e.Name
	}
	if used == "set_contains_all" {
		*operand = "set_contains"
	}
	if *operand == "" {
		*operand = "="
		if *left == "" {
			d.Report.Add(at, "the block needs an attribute, and a value to compare it with")
		}
	}
}

// finishNetwork sorts ports into static and dynamic ones.
func finishNetwork(d *hclfile.Decoder, v reflect.Value, at hcl.Range, _ []hclfile.Extra) {
	n := v.Addr().Interface().(*api.NetworkResource)
	var dynamic []api.Port
	for i, p := range n.DynamicPorts {
		from := fmt.Sprintf("DynamicPorts[%d]", i)
		rng := d.At[n][from]
		if rng.Filename == "" {
			rng = at
		}
		if p.Value < 0 || p.Value > 65535 {
			d.Report.Add(rng, "the port %q has the static number %d, which is not between 1 and 65535", p.Label,
				p.Value)
		}
		if p.Value > 0 {
			d.At.Rename(n, from, fmt.Sprintf("ReservedPorts[%d]", len(n.ReservedPorts)))
			n.ReservedPorts = append(n.ReservedPorts, p)
			continue
		}
		d.At.Rename(n, from, fmt.Sprintf("DynamicPorts[%d]", len(dynamic)))
		dynamic = append(dynamic, p)
	}
	n.DynamicPorts = dynamic
}

func finishPeriodic(_ *hclfile.Decoder, v reflect.Value, _ hcl.Range, _ []hclfile.Extra) {
	cron := "cron"
	v.Addr().Interface().(*api.PeriodicConfig).SpecType = &cron
}

// finishTask takes the default identity out of the named ones.
func finishTask(d *hclfile.Decoder, v reflect.Value, _ hcl.Range, _ []hclfile.Extra) {
	t := v.Addr().Interface().(*api.Task)
	var named []*api.WorkloadIdentity
	for _, id := range t.Identities {
		if id.Name != "" && id.Name != "default" {
			named = append(named, id)
			continue
		}
		if t.Identity != nil {
			d.Report.Add(d.At[id][""], "the task %q has two identities named default; rename one", t.Name)
		}
		t.Identity = id
	}
	t.Identities = named
}

// finishTemplate fills in the defaults that a template has in the job that clients send already.
func finishTemplate(_ *hclfile.Decoder, v reflect.Value, _ hcl.Range, _ []hclfile.Extra) {
	t := v.Addr().Interface().(*api.Template)
	t.ChangeMode = cmp.Or(t.ChangeMode, new("restart"))
	t.Splay = cmp.Or(t.Splay, new(5*time.Second))
	t.Perms = cmp.Or(t.Perms, new("0644"))
	t.ErrMissingKey = cmp.Or(t.ErrMissingKey, new(false))
}

// finishVolume checks what only the author's file can place.
func finishVolume(d *hclfile.Decoder, v reflect.Value, at hcl.Range, _ []hclfile.Extra) {
	vol := v.Addr().Interface().(*api.VolumeRequest)
	if d.Report.Failed() {
		return
	}
	switch {
	case vol.Type == "":
		d.Report.Add(at, "the volume %q has no type; write type = \"csi\" or type = \"host\"", vol.Name)
	case vol.Type != "csi" && vol.Type != "host":
		d.Report.Add(at, "the volume %q has the type %q; there are csi and host", vol.Name, vol.Type)
	case vol.Source == "":
		d.Report.Add(at, "the volume %q has no source; name the volume, as in source = \"data\"", vol.Name)
	}
}
