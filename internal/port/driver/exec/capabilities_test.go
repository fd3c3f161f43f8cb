package exec

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
)

// Given what an agent allows and what a job adds and drops, then a task has the default set as far as it is allowed and
// not dropped, with what is added, and ambient is what was added by name alone; what is not allowed, and what does not
// exist, is refused by its name.
func TestWhatCapabilitiesATaskHas(t *testing.T) {
	without := func(dropped ...string) []string {
		return slices.DeleteFunc(slices.Clone(DefaultCapabilities), func(c string) bool {
			return slices.Contains(dropped, c)
		})
	}
	with := func(added ...string) []string {
		return slices.Sorted(slices.Values(append(slices.Clone(DefaultCapabilities), added...)))
	}
	every := slices.Sorted(slices.Values(AllCapabilities))
	for name, c := range map[string]struct {
		allow, add, drop []string
		keep, ambient    []string
	}{
		"default":            {DefaultCapabilities, nil, nil, DefaultCapabilities, nil},
		"an agent with less": {[]string{"chown"}, nil, nil, []string{"chown"}, nil},
		"an agent with none": {[]string{}, nil, nil, nil, nil},
		"dropped":            {DefaultCapabilities, nil, []string{"CAP_CHOWN", "kill"}, without("chown", "kill"), nil},
		"all dropped":        {DefaultCapabilities, nil, []string{"all"}, nil, nil},
		"all dropped but one": {DefaultCapabilities, []string{"chown"}, []string{"all"}, []string{"chown"},
			[]string{"chown"}},
		"added": {append(slices.Clone(DefaultCapabilities), "net_raw"), []string{"CAP_NET_RAW"}, nil, with("net_raw"),
			[]string{"net_raw"}},
		"all added of those allowed": {[]string{"chown", "net_raw"}, []string{"all"}, nil, []string{"chown", "net_raw"},
			nil},
		"all added of all": {[]string{"all"}, []string{"all"}, nil, every, nil},
		"all but one": {[]string{"all"}, []string{"all"}, []string{"sys_admin"},
			slices.DeleteFunc(slices.Clone(every), func(c string) bool { return c == "sys_admin" }), nil},
	} {
		keep, ambient, err := capabilities(c.allow, c.add, c.drop)
		if err != nil || !slices.Equal(keep, c.keep) || !slices.Equal(ambient, c.ambient) {
			t.Errorf("%s: %v, ambient %v, %v; want %v, %v", name, keep, ambient, err, c.keep, c.ambient)
		}
	}
	for name, c := range map[string]struct {
		add, drop []string
		kind      fault.Kind
	}{
		"net_raw":    {[]string{"net_raw"}, nil, fault.Denied},
		"chroot":     {[]string{"chroot"}, nil, fault.Invalid},
		"sys_chrood": {nil, []string{"CAP_SYS_CHROOD"}, fault.Invalid},
	} {
		_, _, err := capabilities(DefaultCapabilities, c.add, c.drop)
		if !fault.Has(err, c.kind) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Given agents that say nothing of capabilities, or what they allow, then a job may add what is within, and a storage
// plugin is refused unless it is allowed.
func TestWhatAnAgentAllows(t *testing.T) {
	adding := func(c string) func(*driver.TaskConfig) {
		return func(tc *driver.TaskConfig) { tc.Config["cap_add"] = []any{c} }
	}
	for name, c := range map[string]struct {
		cfg     Config
		change  func(*driver.TaskConfig)
		refused bool
	}{
		"within the default":    {Config{}, adding("chown"), false},
		"beyond the default":    {Config{}, adding("net_raw"), true},
		"within what it allows": {Config{AllowCaps: []string{"net_raw"}}, adding("net_raw"), false},
		"beyond what it allows": {Config{AllowCaps: []string{"net_raw"}}, adding("chown"), true},
		"a plugin":              {Config{}, func(tc *driver.TaskConfig) { tc.CSIPluginNode = true }, true},
		"a plugin that may": {Config{AllowCSINode: true}, func(tc *driver.TaskConfig) { tc.CSIPluginNode = true },
			false},
	} {
		if _, err := privilegesOf(t, c.cfg, c.change); fault.Has(err, fault.Denied) != c.refused ||
			err != nil && !c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
