package jobrules_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules"
	"berth/internal/testkit/samplejob"
	"berth/jobspec/support"
)

// Given checks that are scripts, then those are taken that say what is run and in which task, and every other is
// refused with what to write.
func TestAScriptNamesItsCommandAndItsTask(t *testing.T) {
	check := func(change func(*api.ServiceCheck)) *api.ServiceCheck {
		c := &api.ServiceCheck{
			Type:     "script",
			Command:  "/bin/x",
			Args:     []string{"${NOMAD_TASK_DIR}"},
			TaskName: "t",
			Interval: time.Second,
			Timeout:  time.Second,
		}
		change(c)
		return c
	}
	for what, c := range map[string]struct {
		check  *api.ServiceCheck
		ofTask bool
		says   string
	}{
		"whole":             {check(func(*api.ServiceCheck) {}), false, ""},
		"of a task":         {check(func(c *api.ServiceCheck) { c.TaskName = "" }), true, ""},
		"without a task":    {check(func(c *api.ServiceCheck) { c.TaskName = "" }), false, `write task = "NAME"`},
		"of another task":   {check(func(c *api.ServiceCheck) { c.TaskName = "x" }), false, `has no task "x"`},
		"without a command": {check(func(c *api.ServiceCheck) { c.Command = "" }), false, "needs a command"},
		"with a port": {check(func(c *api.ServiceCheck) { c.PortLabel = "http" }), false,
			"a script finds its port in its environment"},
		"of another type": {check(func(c *api.ServiceCheck) { c.Type, c.PortLabel = "tcp", "http" }), false,
			"command and args are of checks of type script"},
		"by a word that is none": {check(func(c *api.ServiceCheck) { c.Args[0] = "a\x00b" }), false, "args"},
	} {
		j := samplejob.New()
		g := j.TaskGroups[0]
		s := []*api.Service{{Name: "web", Provider: "nomad", Checks: []*api.ServiceCheck{c.check}}}
		if c.ofTask {
			g.Tasks[0].Services = s
		} else {
			g.Services = s
		}
		jobrules.Canonicalize(j, "global", "default")
		if refused := support.Unsupported(j); len(refused) > 0 {
			t.Errorf("%s: %v", what, refused)
		}
		err := errors.Join(jobrules.Validate(j)...)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// Given two scripts without names, then they are two checks if they run something else.
func TestScriptsDifferByWhatTheyRun(t *testing.T) {
	for other, fine := range map[string]bool{"b": true, "a": false} {
		j := samplejob.New()
		of := func(arg string) *api.ServiceCheck {
			return &api.ServiceCheck{
				Type:     "script",
				Command:  "/bin/x",
				Args:     []string{arg},
				TaskName: "t",
				Interval: time.Second,
				Timeout:  time.Second,
			}
		}
		j.TaskGroups[0].Services = []*api.Service{
			{Provider: "nomad", Checks: []*api.ServiceCheck{of("a"), of(other)}},
		}
		jobrules.Canonicalize(j, "global", "default")
		if err := errors.Join(jobrules.Validate(j)...); (err == nil) != fine {
			t.Errorf("x a and x %s: %v", other, err)
		}
	}
}

// Given ports and what they are called, then those labels are taken that can be in names of variables, and such as a
// service would take for a number are not.
func TestLabelsOfPorts(t *testing.T) {
	for label, fine := range map[string]bool{"http": true, "http-alt": true, "_x.y": true, "9p": true, "-a": false,
		"a b": false, "a=b": false, "a\nb": false, "8080": false, "ä": false, strings.Repeat("x", 64): false} {
		j := samplejob.New()
		j.TaskGroups[0].Networks[0].DynamicPorts = []api.Port{{Label: label}}
		jobrules.Canonicalize(j, "global", "default")
		if err := errors.Join(jobrules.Validate(j)...); (err == nil) != fine {
			t.Errorf("%q: %v", label, err)
		}
	}
}

// Given modes of networks, then one that is none is refused with those that there are.
func TestAModeThatIsNoneIsRefusedWithThoseThatThereAre(t *testing.T) {
	for mode, says := range map[string]string{
		"bridge":  "",
		"cni/lab": "",
		"brigde":  "there are host, bridge, none, and cni/NAME",
		"cni/":    "names no network",
	} {
		j := samplejob.New()
		j.TaskGroups[0].Networks[0].Mode = mode
		jobrules.Canonicalize(j, "global", "default")
		err := errors.Join(jobrules.Validate(j)...)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", mode, err, says)
		}
	}
}
