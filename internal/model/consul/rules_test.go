package consul_test

import (
	"slices"
	"testing"

	"berth/internal/model/consul"
)

// What Consul asks of whoever registers services whose tags others may change (enable_tag_override), and where it is
// shown. "Real" is played on the real program.
//
//	A registration for another reason carries the freshest tags, never the job's
//	    TestARegistrationForAnotherReasonCarriesTheFreshestTags
//	A registration resets no check
//	    TestARegistrationLeavesChecksAlone (port/consul, real), TestChecksComeAndGoWithoutTheirService
//	Nil is empty, tags are a set, and are sent in one order
//	    TestNilIsEmptyAndTagsAreASet, TestTheRealAgentHasWhatItWasGiven (port/consul, real)
//	The catalog is read before a registration, and what others write goes to the agent at once
//	    TestTheCatalogIsReadBeforeARegistration, TestATagOfOthersOutlivesACheckThatTurns (client/servicesync, real)
//	One service's change registers no other
//	    TestEachChangeIsSentForItsServiceAlone (real), TestOneOfAThousandIsSentAlone (client/servicesync)
//
// Each kind of difference is a row of TestEachDifferenceIsReasonToRegisterOrIsNone, but for these:
//
//	tags that a sidecar has of its service        TestInheritedTagsOfASidecarAreCarriedAlong
//	a sidecar's own tags                          TestASidecarHasTheTagsOfItsServiceOrItsOwn (derive/service)
//	proxy, upstreams, expose, connect             TestAnotherWorkOfAProxyIsReasonToRegister (derive/service)
//	checks                                        TestChecksComeAndGoWithoutTheirService
//	id                                            TestAnotherIDIsAnotherService
//	the job's tags, edited since it registered    TestTheLastWriterOfTagsWins
//
// Where orchestrators were seen to lose tags:
//
//	a check turns before Consul takes an edit over    TestATagOfOthersOutlivesACheckThatTurns (real)
//	an unrelated job comes to the node                TestATagOfOthersOutlivesAnUnrelatedJob (real)
//	Consul itself takes them back as it begins        TestAServerOfConsulThatBeginsAnewWithOlderTagsIsGivenTheLast
//	all of these, in any order                        TestWhateverHappensTheLastWritersTagsStay,
//	                                                  TestTheLastWritersTagsStayOnTheRealConsul (real)

// TestNilIsEmptyAndTagsAreASet: neither is a difference, whichever side has which.
func TestNilIsEmptyAndTagsAreASet(t *testing.T) {
	for _, opened := range []bool{false, true} {
		bare, filled := svc(), svc()
		bare.Tags, filled.Tags = nil, []string{}
		bare.EnableTagOverride, filled.EnableTagOverride = opened, opened
		filled.TaggedAddresses = map[string]consul.Address{}
		filled.Weights = consul.Weights{Passing: 1, Warning: 1}
		if !opened {
			filled.Meta = map[string]string{}
		}
		for _, c := range [][2]*consul.Service{{bare, filled}, {filled, bare}} {
			have := *c[1]
			if opened {
				have.Meta = map[string]string{consul.MetaMark: consul.Mark(nil)}
			}
			f := consul.Facts{Wanted: c[0], Agent: &have, Catalog: &consul.Shown{Mark: have.Meta[consul.MetaMark]}}
			if got := consul.Next(f); !got.Idle() {
				t.Errorf("opened %v: registered because of %q", opened, got.Why)
			}
		}
	}
	job := []string{"b", "a", "c"}
	want := open(job...)
	want.Port = 8080
	for range 3 {
		f := consul.Facts{Wanted: want, Agent: had(job, "c", "a", "b"), Catalog: shown(job, "c", "b", "a")}
		if got := consul.Next(f).Register; !slices.Equal(got.Tags, []string{"c", "b", "a"}) {
			t.Errorf("sent as %q, not as the catalog has them, which Consul takes for another service", got.Tags)
		}
	}
}

// TestInheritedTagsOfASidecarAreCarriedAlong: a proxy whose tags are its service's may get others in the catalog, as
// that may; its port is then reason to register with those.
func TestInheritedTagsOfASidecarAreCarriedAlong(t *testing.T) {
	proxy := func(s *consul.Service) *consul.Service {
		s.ID, s.Kind = s.ID+"-sidecar-proxy", consul.KindProxy
		s.Proxy = &consul.Proxy{DestinationServiceName: "web"}
		return s
	}
	job := []string{"job"}
	f := consul.Facts{
		Wanted:  proxy(open(job...)),
		Agent:   proxy(had(job, "other")),
		Catalog: shown(job, "other"),
	}
	if got := consul.Next(f); !got.Idle() {
		t.Errorf("registered because of %q", got.Why)
	}
	f.Wanted.Port = 8080
	if got := consul.Next(f); got.Why != "port" || !slices.Equal(got.Register.Tags, []string{"other"}) {
		t.Errorf("registered %+v because of %q", got.Register, got.Why)
	}
}

// TestAnotherIDIsAnotherService: what is wanted is registered as new, with its checks and the tags of its job, and what
// nobody wants is taken out.
func TestAnotherIDIsAnotherService(t *testing.T) {
	want := open("job")
	want.ID = "_berth-n-b-group-g-web-http"
	got := consul.Next(consul.Facts{Wanted: want, Checks: []consul.Check{{ID: "c"}}})
	if got.Why != consul.New || !slices.Equal(got.Register.Tags, want.Tags) || len(got.Add) != 1 {
		t.Errorf("%+v", got)
	}
	if got := consul.Next(consul.Facts{Agent: had([]string{"job"}, "other")}); !got.Deregister {
		t.Errorf("%+v", got)
	}
}
