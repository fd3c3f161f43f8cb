package consul

import (
	"maps"
	"slices"
	"strconv"
)

// MetaMark is the member of a service's meta that keeps which tags the job gave when it was registered, and after
// those which it had before (history.go). Only services have it whose tags others may change, or might: by it an edit
// of the job is told from one in the catalog after any crash, for it lies where the registration does.
const MetaMark = "berth-job-tags"

// Facts are all that decides what is done about one service.
type Facts struct {
	Wanted  *Service // with the tags that its job gives; nil: it is not to be there
	Agent   *Service // as the agent has it; nil: it has none of this id
	Catalog *Shown   // nil: it has none, or is not known
	Sent    *Sent    // nil: all that was sent was seen to have arrived, or an earlier run of ours sent it
	// Seen are tags that somebody wrote into the catalog, and which were not dealt with yet; nil: there are none. The
	// catalog may show them no more: a check that turned has the agent push the service as it has it.
	Seen *Shown
	// Lost: the catalog showed the service and does no more, while the agent has it. The agent would notice in a minute
	// or two; it pushes at once what it is given.
	Lost bool
	// Held are the tags that the service had when Consul was left; nil: it was not, or its agent is no server. Had are
	// the marks of those that it had earlier, as far as they are known beside its registration.
	Held *Shown
	Had  []string
	// Checks are those that are wanted, and Has the ids of those that the agent has.
	Checks []Check
	Has    []string
}

// Shown is what the catalog shows of a service.
type Shown struct {
	Name  string // of the service; empty: not known
	Tags  []string
	Mark  string // its MetaMark; empty: it has none
	Index uint64 // of its last change; 0: not known
}

// Sent is what was registered last, as long as the catalog was not seen to show it. Until then the catalog may show
// what it showed before, and so may the agent, which pushes and pulls the whole service when a check of it turns.
type Sent struct {
	Tags       []string
	Superseded [][]string
}

// Step is what is to be done. The zero value: all is as it is to be.
type Step struct {
	Deregister bool
	// Register is what the service is registered with; nil: it stays. Its checks are left alone, but when it is new.
	Register *Service
	Why      string   // of Register: what differs
	Sent     *Sent    // what is remembered of Register, or still of what was registered before
	Add      []Check  // with Register of a new service, in the same call
	Remove   []string // checks
}

// Missing is why a service is registered that the catalog has lost.
const Missing = "the catalog has lost it"

// New is why a service is registered that the agent has not: its checks come in the same call.
const New = "it is not registered"

// Idle reports whether nothing is to be done.
func (s Step) Idle() bool {
	return !s.Deregister && s.Register == nil && len(s.Add) == 0 && len(s.Remove) == 0
}

// Next is what is to be done about a service.
//
// Of tags that others may change the last writer's stay. They come from three sides: what the job gave at the last
// registration (the mark), what the agent has, and what the catalog shows. An edit of the job wins when it comes; later
// ones in the catalog win over it. Whatever else is a reason to register again carries the freshest tags along.
func Next(f Facts) Step {
	if f.Wanted == nil {
		return Step{Deregister: f.Agent != nil}
	}
	want := *f.Wanted
	want.Meta = f.marked(want.Meta)
	edited := true
	if want.EnableTagOverride {
		want.Tags, edited = tagsOf(f)
	}
	var s Step
	if f.Agent == nil {
		s.Register, s.Why = &want, New
		s.Add = f.Checks
	} else {
		s.Why = Differs(&want, f.Agent)
		if s.Why == "" && f.Lost && f.Catalog == nil {
			s.Why = Missing
		}
		if s.Why != "" {
			s.Register = &want
		} else if want.EnableTagOverride {
			s.Sent = f.Sent.left(f)
		}
		s.Add, s.Remove = checksOf(f)
	}
	if s.Register != nil {
		f.remember(&want)
	}
	if s.Register != nil && want.EnableTagOverride {
		s.Sent = superseding(f, want.Tags, edited)
	}
	return s
}

// tagsOf are the tags of a service that others may change, and whether they are a new edit of its job.
func tagsOf(f Facts) (tags []string, edited bool) {
	job, mark := f.Wanted.Tags, Mark(f.Wanted.Tags)
	switch {
	case f.Agent == nil && f.Catalog != nil && jobsMark(f.Catalog.Mark) == mark:
		return f.Catalog.Tags, false // the agent has lost it, or its task was restarted
	case f.Agent == nil:
		return job, true
	case !f.Agent.EnableTagOverride: // until now nobody else might
		return job, true
	}
	base := jobsMark(f.Agent.Meta[MetaMark])
	if base != "" && base != mark {
		return job, true
	}
	if f.fellBack() {
		return f.Held.Tags, false
	}
	if f.overtaken() {
		return f.Seen.Tags, false
	}
	if f.Sent != nil {
		if f.Catalog != nil && (!f.Sent.knows(f.Catalog.Tags) || f.editedAfter()) {
			return f.Catalog.Tags, false
		}
		return f.Sent.Tags, false
	}
	if f.Catalog == nil || f.Catalog.Mark != "" && jobsMark(f.Catalog.Mark) != base {
		return f.Agent.Tags, false // the catalog has yet to hear of it
	}
	return f.Catalog.Tags, false
}

// overtaken reports that an edit was taken back before it was dealt with: the catalog shows what the agent has, or what
// was sent, and not what was seen.
func (f Facts) overtaken() bool {
	if f.Seen == nil || f.Catalog == nil || SameTags(f.Seen.Tags, f.Catalog.Tags) {
		return false
	}
	if f.Sent != nil {
		return f.Sent.knows(f.Catalog.Tags) && !f.Sent.knows(f.Seen.Tags)
	}
	return SameTags(f.Catalog.Tags, f.Agent.Tags)
}

// knows reports whether tags are those that were sent, or some that those superseded.
func (s *Sent) knows(tags []string) bool {
	return SameTags(tags, s.Tags) ||
		slices.ContainsFunc(s.Superseded, func(old []string) bool { return SameTags(old, tags) })
}

// left is what is still remembered when the agent has what is wanted: nothing as soon as the catalog shows the very
// registration. That it shows the same tags is not enough: the edit that was sent is what it showed before.
func (s *Sent) left(f Facts) *Sent {
	if s == nil || f.arrived() && SameTags(f.Catalog.Tags, f.Agent.Tags) {
		return nil
	}
	return s
}

// arrived reports that the catalog shows a registration as the agent has it, whatever became of its tags since.
func (f Facts) arrived() bool {
	return f.Catalog != nil && f.Catalog.Mark == f.Agent.Meta[MetaMark]
}

// editedAfter reports that somebody wrote tags after the last registration had arrived, those of before perhaps.
func (f Facts) editedAfter() bool {
	return f.arrived() && !SameTags(f.Catalog.Tags, f.Agent.Tags)
}

// superseding is what is remembered when tags are registered.
func superseding(f Facts, tags []string, edited bool) *Sent {
	out := &Sent{Tags: tags}
	keep := func(old []string) {
		if !out.knows(old) {
			out.Superseded = append(out.Superseded, old)
		}
	}
	if f.Agent != nil {
		keep(f.Agent.Tags)
	}
	if f.Catalog != nil && edited {
		keep(f.Catalog.Tags)
	}
	if f.Sent != nil {
		keep(f.Sent.Tags)
		for _, old := range f.Sent.Superseded {
			keep(old)
		}
	}
	return out
}

// Differs says in what two registrations differ that a new one is for; empty: in nothing.
func Differs(want, have *Service) string {
	switch {
	case want.Name != have.Name:
		return "name"
	case want.Kind != have.Kind:
		return "kind"
	case want.Port != have.Port:
		return "port"
	case want.Address != have.Address:
		return "address"
	case want.EnableTagOverride != have.EnableTagOverride:
		return "enable_tag_override"
	case !SameTags(want.Tags, have.Tags):
		return "tags"
	case !maps.Equal(want.Meta, have.Meta):
		return "meta"
	case want.weights() != have.weights():
		return "weights"
	case !sameAddresses(want.TaggedAddresses, have.TaggedAddresses):
		return "tagged_addresses"
	case want.Native != have.Native:
		return "native"
	case !want.Proxy.stands(have.Proxy):
		return "proxy"
	}
	return ""
}

// SameTags reports whether two lists are the same set.
func SameTags(a, b []string) bool {
	return slices.Equal(set(a), set(b))
}

func set(tags []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(tags)))
}

func (s *Service) weights() Weights {
	w := s.Weights
	if w == (Weights{}) {
		return Weights{Passing: 1, Warning: 1}
	}
	return w
}

// sameAddresses leaves out what Consul adds by itself where nobody asks for it.
func sameAddresses(want, have map[string]Address) bool {
	left := maps.Clone(have)
	for _, own := range []string{"lan_ipv4", "lan_ipv6", "wan_ipv4", "wan_ipv6"} {
		if _, asked := want[own]; !asked {
			delete(left, own)
		}
	}
	return maps.Equal(want, left)
}

// checksOf are the checks that the agent lacks, and those that it has and nobody wants.
func checksOf(f Facts) (add []Check, remove []string) {
	for _, c := range f.Checks {
		if !slices.Contains(f.Has, c.ID) {
			add = append(add, c)
		}
	}
	for _, id := range f.Has {
		if !slices.ContainsFunc(f.Checks, func(c Check) bool { return c.ID == id }) {
			remove = append(remove, id)
		}
	}
	return add, remove
}

func number(n int) string { return strconv.Itoa(n) }
