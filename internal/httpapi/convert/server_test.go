package convert_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/internal/httpapi/convert"
	"berth/internal/wire"
)

// listed is a server of the list, as the one that leads sees it.
func listed(name string, change func(*wire.ServerStatus)) wire.ServerStatus {
	s := wire.ServerStatus{Member: true, Voter: true, Alive: true}
	s.Name, s.Address = name, "10.0.0.1:4647"
	change(&s)
	return s
}

// someServers are two that are well, one that does not answer, one that does not vote yet, and one that was removed.
func someServers() []wire.ServerStatus {
	return []wire.ServerStatus{
		listed("ash", func(s *wire.ServerStatus) { s.Leader = true }),
		listed("elm", func(*wire.ServerStatus) {}),
		listed("oak", func(s *wire.ServerStatus) {
			s.Alive, s.Why = false, "it does not answer"
			s.Contact = 40 * time.Second
		}),
		listed("fir", func(s *wire.ServerStatus) { s.Voter = false }),
		listed("yew", func(s *wire.ServerStatus) {
			s.Member, s.Alive = false, false
			s.Removed = time.Unix(1, 0)
		}),
	}
}

// Given servers of which one does not answer, then the cluster is not healthy, as many may fail yet as leave a majority
// of those that vote, and what was removed does not count.
func TestWhatOneServerThatFailsLeaves(t *testing.T) {
	all := someServers()
	out := convert.AutopilotHealth(all)
	if out.Healthy || out.FailureTolerance != 0 || out.Leader != "ash" {
		t.Errorf("healthy %t, %d may fail, %q leads; want false, 0, ash", out.Healthy, out.FailureTolerance, out.Leader)
	}
	if diff := cmp.Diff([]string{"ash", "elm", "oak"}, out.Voters); diff != "" {
		t.Error("voters:", diff)
	}
	if len(out.Servers) != 4 || out.Servers[2].Healthy || out.Servers[2].LastContact != "40s" {
		t.Errorf("%d servers, the third %+v", len(out.Servers), out.Servers[2])
	}
	all[2].Alive, all[2].Why = true, ""
	if out = convert.AutopilotHealth(all); !out.Healthy || out.FailureTolerance != 1 {
		t.Errorf("when it answers again: healthy %t, %d may fail; want true, 1", out.Healthy, out.FailureTolerance)
	}
}

// Given the same servers, then members name all, with how each is, and the log is kept by those that were not removed.
func TestServersAreShownAsTheyAre(t *testing.T) {
	all := someServers()
	got := map[string]string{}
	for _, m := range convert.ServerMembers("global", wire.Member{Name: "ash"}, all).Members {
		got[m.Name] = m.Status
	}
	want := map[string]string{"ash": "alive", "elm": "alive", "oak": "failed", "fir": "alive", "yew": "left"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(convert.Peers(all)); n != 4 {
		t.Errorf("%d peers, want 4", n)
	}
	kept := convert.RaftConfiguration(7, all)
	if len(kept.Servers) != 4 || !kept.Servers[0].Leader || kept.Servers[3].Voter || kept.Index != 7 {
		t.Errorf("the log is kept by %+v at %d", kept.Servers, kept.Index)
	}
}
