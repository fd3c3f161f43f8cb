package consul_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/internal/model/consul"
)

func svc(tags ...string) *consul.Service {
	return &consul.Service{
		ID:      "_berth-n-a-group-g-web-http",
		Name:    "web",
		Tags:    tags,
		Address: "10.0.0.1",
		Port:    80,
	}
}

// open is a service whose tags others may change.
func open(tags ...string) *consul.Service {
	s := svc(tags...)
	s.EnableTagOverride = true
	return s
}

// had is a service as the agent has it after a registration with the job's tags, of which others made tags.
func had(job []string, tags ...string) *consul.Service {
	s := open(tags...)
	s.Meta = map[string]string{consul.MetaMark: consul.Mark(job)}
	return s
}

// after is a service whose registration knows that it had other tags before.
func after(tags []string, s *consul.Service) *consul.Service {
	s.Meta[consul.MetaMark] += " " + consul.Mark(tags)
	return s
}

func shown(job []string, tags ...string) *consul.Shown {
	return &consul.Shown{Tags: tags, Mark: consul.Mark(job)}
}

// TestEachDifferenceIsReasonToRegisterOrIsNone: the table of what asks for another registration, for services whose
// tags others may change and for others.
func TestEachDifferenceIsReasonToRegisterOrIsNone(t *testing.T) {
	for what, c := range map[string]struct {
		change         func(*consul.Service)
		closed, opened string
	}{
		"tags":                         {func(s *consul.Service) { s.Tags = []string{"x"} }, "tags", ""},
		"the order of tags":            {func(s *consul.Service) { slices.Reverse(s.Tags) }, "", ""},
		"a tag twice":                  {func(s *consul.Service) { s.Tags = append(s.Tags, "a") }, "", ""},
		"kind":                         {func(s *consul.Service) { s.Kind = "x" }, "kind", "kind"},
		"name":                         {func(s *consul.Service) { s.Name = "x" }, "name", "name"},
		"port":                         {func(s *consul.Service) { s.Port = 1 }, "port", "port"},
		"address":                      {func(s *consul.Service) { s.Address = "x" }, "address", "address"},
		"meta":                         {func(s *consul.Service) { s.Meta["k"] = "x" }, "meta", "meta"},
		"a member of meta more":        {func(s *consul.Service) { s.Meta["m"] = "x" }, "meta", "meta"},
		"weights":                      {weights(3), "weights", "weights"},
		"weights of one":               {weights(1), "", ""},
		"the flag":                     {toggled, flag, flag},
		"an address more":              {address("vpn"), "tagged_addresses", "tagged_addresses"},
		"an address that Consul adds":  {address("lan_ipv4"), "", ""},
		"another that Consul adds":     {address("wan_ipv6"), "", ""},
		"no tagged addresses but none": {noAddress, "", ""},
	} {
		for _, opened := range []bool{false, true} {
			job := []string{"a", "b"}
			want, have := svc(job...), svc(job...)
			if opened {
				want, have = open(job...), had(job, job...)
			}
			want.Meta = map[string]string{"k": "v"}
			have.Meta = withKey(have.Meta)
			c.change(have)
			f := consul.Facts{Wanted: want, Agent: have, Catalog: shown(job, have.Tags...)}
			got, expected := consul.Next(f), c.closed
			if opened {
				expected = c.opened
			}
			if got.Why != expected || (got.Register != nil) != (expected != "") {
				t.Errorf("%s, opened %v: registered because of %q, want %q", what, opened, got.Why, expected)
			}
			if len(got.Add)+len(got.Remove) > 0 {
				t.Errorf("%s: checks are touched: %+v", what, got)
			}
		}
	}
}

func toggled(s *consul.Service) { s.EnableTagOverride = !s.EnableTagOverride }

const flag = "enable_tag_override"

func withKey(m map[string]string) map[string]string {
	out := map[string]string{"k": "v"}
	maps.Copy(out, m)
	return out
}

func weights(passing int) func(*consul.Service) {
	return func(s *consul.Service) { s.Weights = consul.Weights{Passing: passing, Warning: 1} }
}

func noAddress(s *consul.Service) { s.TaggedAddresses = map[string]consul.Address{} }

func address(name string) func(*consul.Service) {
	return func(s *consul.Service) { s.TaggedAddresses = map[string]consul.Address{name: {Address: "x", Port: 1}} }
}

// TestTheLastWriterOfTagsWins enumerates what job, agent and catalog can say, with which tags the service is to be
// found, and whether that asks for a registration.
func TestTheLastWriterOfTagsWins(t *testing.T) {
	job, older := []string{"job"}, []string{"older"}
	other := []string{"other"}
	for what, c := range map[string]struct {
		f         consul.Facts
		tags      []string
		registers bool
	}{
		"nothing is known of it": {consul.Facts{Wanted: open("job")}, job, true},
		"all agree": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "job")}, job, false},
		"somebody edited, the agent has yet to hear": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "other")}, other, true},
		"somebody edited and dropped our mark": {
			consul.Facts{
				Wanted: open("job"), Agent: had(job, "job"), Catalog: &consul.Shown{Tags: other}}, other, true},
		"somebody edited, the agent has heard": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "other"), Catalog: shown(job, "other")}, other, false},
		"the catalog is not known": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "other")}, other, false},
		"the job edits": {
			consul.Facts{Wanted: open("job"), Agent: had(older, "older"), Catalog: shown(older, "older")}, job, true},
		"the job edits what somebody edited": {
			consul.Facts{Wanted: open("job"), Agent: had(older, "other"), Catalog: shown(older, "other")}, job, true},
		"the job's edit has not reached the catalog": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(older, "older")}, job, false},
		"the agent has lost it": {
			consul.Facts{Wanted: open("job"), Catalog: shown(job, "other")}, other, true},
		"the agent has lost it, and the job edits": {
			consul.Facts{Wanted: open("job"), Catalog: shown(older, "other")}, job, true},
		"the flag is new": {
			consul.Facts{Wanted: open("job"), Agent: svc("older"), Catalog: &consul.Shown{Tags: other}}, job, true},
		"the flag is gone": {
			consul.Facts{Wanted: svc("job"), Agent: had(job, "other"), Catalog: shown(job, "other")}, job, true},
		"another edits tags that none may": {
			consul.Facts{Wanted: svc("job"), Agent: svc("job"), Catalog: &consul.Shown{Tags: other}}, job, false},
		"a check turned before the agent had the edit that was sent": {
			consul.Facts{Wanted: open("job"), Agent: after(other, had(job, "other")), Catalog: shown(job, "job"),
				Sent: &consul.Sent{Tags: other, Superseded: [][]string{job}}}, other, false},
		"somebody writes the tags of before again when what was sent has arrived": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "other"), Catalog: shown(job, "job"),
				Sent: &consul.Sent{Tags: other, Superseded: [][]string{job}}}, job, true},
		"and the agent took over what the catalog fell back to": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "job"),
				Sent: &consul.Sent{Tags: other, Superseded: [][]string{job}}}, other, true},
		"a check turned before an edit that was seen was sent": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "job"),
				Seen: shown(job, "other")}, other, true},
		"the same, while another edit is under way": {
			consul.Facts{
				Wanted:  open("job"),
				Agent:   had(job, "third"),
				Catalog: shown(job, "third"),
				Sent:    &consul.Sent{Tags: []string{"third"}, Superseded: [][]string{job}},
				Seen:    shown(job, "other"),
			}, other, true},
		"what was sent is seen to arrive, and falls back": {
			consul.Facts{
				Wanted:  open("job"),
				Agent:   had(job, "job"),
				Catalog: shown(job, "job"),
				Sent:    &consul.Sent{Tags: other, Superseded: [][]string{job}},
				Seen:    shown(job, "other"),
			}, other, true},
		"somebody edits once more after what was seen": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "third"),
				Seen: shown(job, "other")}, []string{"third"}, true},
		"the job edits after what was seen": {
			consul.Facts{Wanted: open("job"), Agent: had(older, "older"), Catalog: shown(older, "older"),
				Seen: shown(older, "other")}, job, true},
		"the catalog has lost it": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "other"), Lost: true}, other, true},
		"the catalog has lost one that none may edit": {
			consul.Facts{Wanted: svc("job"), Agent: svc("job"), Lost: true}, job, true},
		"the catalog shows again what it had lost": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "job"), Catalog: shown(job, "job"), Lost: true}, job,
			false},
		"Consul began anew with older tags": {
			consul.Facts{
				Wanted:  open("job"),
				Agent:   had(job, "older"),
				Catalog: shown(job, "older"),
				Held:    shown(job, "other"),
				Had:     []string{consul.Mark(older)},
			}, other, true},
		"the same, and the registration knows that they are older": {
			consul.Facts{Wanted: open("job"), Agent: after(older, had(job, "older")), Catalog: shown(job, "older"),
				Held: shown(job, "other")}, other, true},
		"somebody edited elsewhere while Consul was away here": {
			consul.Facts{
				Wanted:  open("job"),
				Agent:   had(job, "third"),
				Catalog: shown(job, "third"),
				Held:    shown(job, "other"),
				Had:     []string{consul.Mark(older)},
			}, []string{"third"}, false},
		"somebody writes older tags again after Consul began anew": {
			consul.Facts{
				Wanted:  open("job"),
				Agent:   had(job, "other"),
				Catalog: shown(job, "older"),
				Held:    shown(job, "other"),
				Had:     []string{consul.Mark(older)},
			}, older, true},
		"older tags, and Consul was never away": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "older"), Catalog: shown(job, "older"),
				Had: []string{consul.Mark(older)}}, older, false},
		"somebody edits before the edit that was sent has arrived": {
			consul.Facts{Wanted: open("job"), Agent: had(job, "other"), Catalog: shown(job, "third"),
				Sent: &consul.Sent{Tags: other, Superseded: [][]string{job}}}, []string{"third"}, true},
	} {
		got := consul.Next(c.f)
		if (got.Register != nil) != c.registers {
			t.Errorf("%s: registered %+v, because of %q", what, got.Register, got.Why)
			continue
		}
		tags := c.f.Wanted.Tags
		if got.Register != nil {
			tags = got.Register.Tags
		} else if c.f.Agent != nil {
			tags = c.f.Agent.Tags
		}
		if !consul.SameTags(tags, c.tags) {
			t.Errorf("%s: found with %q, want %q", what, tags, c.tags)
		}
	}
}

// TestARegistrationForAnotherReasonCarriesTheFreshestTags: the catalog's, never the job's; its meta keeps the mark.
func TestARegistrationForAnotherReasonCarriesTheFreshestTags(t *testing.T) {
	want := open("job")
	want.Port = 8080
	got := consul.Next(consul.Facts{
		Wanted:  want,
		Agent:   had([]string{"job"}, "job"),
		Catalog: shown([]string{"job"}, "freshest"),
	})
	if got.Why != "port" || !slices.Equal(got.Register.Tags, []string{"freshest"}) ||
		!strings.HasPrefix(got.Register.Meta[consul.MetaMark], consul.Mark([]string{"job"})) {
		t.Errorf("%+v", got.Register)
	}
	if want.Meta != nil || want.Tags[0] != "job" {
		t.Errorf("what is wanted was changed: %+v", want)
	}
}

// TestARegistrationKnowsWhichTagsItHadBefore: each once and the latest, in no more than Consul takes; that is no reason
// to register, and an edit of the job is told from it.
func TestARegistrationKnowsWhichTagsItHadBefore(t *testing.T) {
	tags := []string{"0"}
	agent := had([]string{"0"}, tags...)
	for i := range 100 {
		next := []string{strconv.Itoa(i % 60)}
		got := consul.Next(consul.Facts{Wanted: open("0"), Agent: agent, Catalog: shown([]string{"0"}, next...)})
		if got.Register == nil && !consul.SameTags(next, agent.Tags) {
			t.Fatalf("%q: %+v", next, got)
		}
		if got.Register != nil {
			agent = got.Register
		}
		again := consul.Next(consul.Facts{Wanted: open("0"), Agent: agent, Catalog: shown([]string{"0"}, next...)})
		if !again.Idle() {
			t.Fatalf("%q is registered again: %q", next, again.Why)
		}
	}
	kept := strings.Fields(agent.Meta[consul.MetaMark])
	if len(agent.Meta[consul.MetaMark]) > 512 || len(kept) < 10 || kept[0] != consul.Mark([]string{"0"}) {
		t.Errorf("it keeps %q", kept)
	}
	for i, mark := range kept[1:] {
		if want := consul.Mark([]string{strconv.Itoa((99 - len(kept) + 2 + i) % 60)}); mark != want {
			t.Errorf("%d: it keeps %s, want %s", i, mark, want)
		}
	}
	closed := svc("0")
	if got := consul.Next(consul.Facts{Wanted: closed, Agent: agent}); len(strings.Fields(
		got.Register.Meta[consul.MetaMark])) != len(kept) {
		t.Errorf("nobody may change its tags any more, and it keeps %q", got.Register.Meta[consul.MetaMark])
	}
}

// TestChecksComeAndGoWithoutTheirService: a check that is new is added, one that nobody wants is removed, and what
// stays is not touched, whatever else happens to the service.
func TestChecksComeAndGoWithoutTheirService(t *testing.T) {
	stays, comes := consul.Check{ID: "stays"}, consul.Check{ID: "comes"}
	f := consul.Facts{
		Wanted: svc("a"),
		Agent:  svc("a"),
		Checks: []consul.Check{stays, comes},
		Has:    []string{"goes", "stays"},
	}
	for range 2 {
		got := consul.Next(f)
		if len(got.Add) != 1 || got.Add[0].ID != "comes" || !slices.Equal(got.Remove, []string{"goes"}) {
			t.Errorf("%+v", got)
		}
		if (got.Register != nil) != (f.Wanted.Port == 1) {
			t.Errorf("registered: %+v", got.Register)
		}
		f.Wanted.Port = 1
	}
	f.Agent, f.Has = nil, nil
	if got := consul.Next(f); len(got.Add) != 2 || got.Register == nil {
		t.Errorf("a new service: %+v", got)
	}
}

// TestWhatNobodyWantsIsTakenAway: when the agent has it.
func TestWhatNobodyWantsIsTakenAway(t *testing.T) {
	if got := consul.Next(consul.Facts{Agent: svc("a")}); !got.Deregister || got.Register != nil {
		t.Errorf("%+v", got)
	}
	if got := consul.Next(consul.Facts{}); !got.Idle() {
		t.Errorf("%+v", got)
	}
}

// TestACheckIsItsDefinition: each member of it makes another id, and the same definition the same.
func TestACheckIsItsDefinition(t *testing.T) {
	seen := map[string]int{}
	for i, c := range []consul.Check{
		{}, {Name: "x"}, {Notes: "x"}, {Status: "x"}, {Interval: "x"}, {Timeout: "x"}, {TTL: "x"}, {HTTP: "x"},
		{Method: "x"}, {Body: "x"}, {TCP: "x"}, {GRPC: "x"}, {GRPCTLS: true}, {TLSServer: "x"}, {TLSSkip: true},
		{SuccessBeforePassing: 1}, {FailuresBeforeWarning: 1}, {FailuresBeforeCritical: 1}, {DeregisterAfter: "x"},
		{Header: map[string][]string{"x": {"y"}}}, {Header: map[string][]string{"x": {"z"}}},
	} {
		id := consul.CheckID("s", c)
		if was, there := seen[id]; there {
			t.Errorf("definitions %d and %d are one", was, i)
		}
		seen[id] = i
		if c.ID = "anything"; consul.CheckID("s", c) != id {
			t.Errorf("definition %d is another each time", i)
		}
	}
}

// TestOwnServicesAreKnownByTheirIDs: those of another node, of people and of other orchestrators are not.
func TestOwnServicesAreKnownByTheirIDs(t *testing.T) {
	for id, own := range map[string]bool{
		"_berth-n1-a1-group-g-web-http":      true,
		"_berth-n11-a1-group-g-web-http":     false,
		"_berth-n2-a1-group-g-web-http":      false,
		"_nomad-task-a1-group-g-web-http":    false,
		"web":                                false,
		"":                                   false,
		consul.OfAlloc("n1", "a1") + "x-y-z": true,
	} {
		if consul.Own("n1", id) != own {
			t.Errorf("%q: own is %v", id, !own)
		}
	}
	if consul.Own("", "_berth--x") {
		t.Error("a node without an id owns something")
	}
}
