package agent

import (
	"math"

	"berth/internal/base/fault"
	"berth/internal/port/driver"
	"berth/internal/port/driver/exec"
	"berth/internal/port/users"
)

// users is as whom the tasks of a driver run. Tasks of exec are nobody unless their job says otherwise, and never root;
// those of raw_exec are what the agent is: who may submit them is root anyway.
func (p *Plugin) users() (users.Policy, error) {
	c := p.config()
	var out users.Policy
	gids := ""
	if p.Name == exec.Name {
		out, gids = users.Policy{Default: "nobody", Denied: []string{"root"}}, "0"
	}
	if c.DefaultUser != nil {
		out.Default = *c.DefaultUser
	}
	if c.DeniedUsers != nil {
		out.Denied = c.DeniedUsers
	}
	if c.DeniedGIDs != nil {
		gids = *c.DeniedGIDs
	} else if c.DeniedUsers != nil && len(c.DeniedUsers) == 0 {
		gids = "" // whoever lets tasks be root lets them be in its group
	}
	var err error
	if out.DeniedGIDs, err = users.ParseRanges(gids); err != nil {
		return out, fault.Note(err, "configure", p.what()+" denied_host_gids")
	}
	if c.DeniedUIDs != nil {
		if out.DeniedUIDs, err = users.ParseRanges(*c.DeniedUIDs); err != nil {
			return out, fault.Note(err, "configure", p.what()+" denied_host_uids")
		}
	}
	return out, p.checkDefaultUser(&out)
}

// checkDefaultUser refuses a default that would have every task refused that names no user. One that the node does not
// know is said by the tasks that would need it: others run.
func (p *Plugin) checkDefaultUser(u *users.Policy) error {
	if p.Name == exec.Name && u.Default == "" {
		return bad(p.what()+" default_user", "it is empty", `leave it out for nobody, or name the user, such as "root"`)
	}
	if err := u.Check(u.Default); fault.Has(err, fault.Denied) {
		return fault.WithHint(fault.Note(err, "configure", p.what()+" default_user"),
			"take it out of denied_users, denied_host_uids and denied_host_gids: denied_users = [] lets tasks be root")
	}
	return nil
}

// ids are the numbers of which allocs get their own, in user namespaces; nil: their tasks share the node's users.
func (p *Plugin) ids() (*driver.IDRange, error) {
	text := p.config().UserNamespaces
	if text == nil {
		return nil, nil
	}
	what := p.what() + " user_namespaces"
	ranges, err := users.ParseRanges(*text)
	if err != nil {
		return nil, fault.Note(err, "configure", what)
	}
	const hint = `give one range of numbers that nobody else on the node has, such as "1000000-1999999"`
	if len(ranges) != 1 {
		return nil, bad(what, "it is not one range", hint)
	}
	out := driver.IDRange{First: ranges[0].First, Last: ranges[0].Last}
	switch {
	case out.First < driver.IDsPerAlloc:
		return nil, bad(what, "its range has numbers below 65,536, which are users of the node", hint)
	case out.Last == math.MaxUint32:
		return nil, bad(what, "its range has number 4,294,967,295, which stands for nobody at all", hint)
	case out.Allocs() == 0:
		return nil, bad(what, "its range is too short: each alloc takes 65,536 numbers", hint)
	}
	return &out, nil
}

func (p *Plugin) what() string { return "plugin \"" + p.Name + "\"" }
