package servicesync

import (
	"log/slog"
	"testing"
	"time"

	"berth/internal/derive/service"
	model "berth/internal/model/consul"
)

// knowing is a keeper that has a service in Consul, and has looked at it.
func knowing() (*Keeper, *entry) {
	k := New(Config{Log: slog.New(slog.DiscardHandler)})
	e := &entry{
		of:         service.InConsul{Service: &model.Service{ID: "a", EnableTagOverride: true}},
		state:      present,
		registered: true,
		catalog:    catalog{has: &model.Shown{Tags: []string{"blue"}}, read: 3},
	}
	k.wanted["a"] = e
	k.shown["a"] = model.Shown{Tags: []string{"blue"}, Mark: "m1", Index: 3}
	return k, e
}

// TestWhatTheCatalogShowsAnewIsLookedAt: other tags, what was sent and has arrived, and what is lost; what is shown as
// before is no reason to look, unless all is looked at.
func TestWhatTheCatalogShowsAnewIsLookedAt(t *testing.T) {
	at := func(index uint64, mark string, tags ...string) map[string]model.Shown {
		return map[string]model.Shown{"a": {Tags: tags, Mark: mark, Index: index}}
	}
	for what, c := range map[string]struct {
		all         map[string]model.Shown
		whole       bool
		looks       bool
		edits, lost bool
	}{
		"the same":            {all: at(4, "m1", "blue")},
		"the same, and all":   {all: at(4, "m1", "blue"), whole: true, looks: true},
		"what was sent":       {all: at(4, "m2", "blue"), looks: true},
		"what others wrote":   {all: at(4, "m1", "green"), looks: true, edits: true},
		"what was read since": {all: at(3, "m1", "green"), looks: true},
		"nothing of it":       {all: map[string]model.Shown{}, looks: true, lost: true},
	} {
		k, e := knowing()
		k.saw(c.all, c.whole)
		if looks := len(k.loop.Pending()) > 0; looks != c.looks || (e.seen != nil) != c.edits || e.lost != c.lost {
			t.Errorf("%s: looked at %v, edited %v, lost %v", what, looks, e.seen, e.lost)
		}
	}
}

// TestWhatTheAgentFallsBackToIsNobodysEdit: the agent pushes the tags that it has over somebody's, which stand.
func TestWhatTheAgentFallsBackToIsNobodysEdit(t *testing.T) {
	k, e := knowing()
	k.saw(map[string]model.Shown{"a": {Tags: []string{"green"}, Mark: "m1", Index: 4}}, false)
	k.saw(map[string]model.Shown{"a": {Tags: []string{"blue"}, Mark: "m1", Index: 5}}, false)
	if e.seen == nil || !model.SameTags(e.seen.Tags, []string{"green"}) {
		t.Errorf("the last edit is %+v", e.seen)
	}
}

// TestTagsAreHeldForAServerThatIsBack: those that it had, and for a moment only; an agent that is no server takes none
// back.
func TestTagsAreHeldForAServerThatIsBack(t *testing.T) {
	for what, c := range map[string]struct {
		server bool
		since  time.Duration
		held   bool
	}{
		"just now":  {true, 0, true},
		"long ago":  {true, recovery, false},
		"no server": {false, 0, false},
	} {
		k, e := knowing()
		k.self.Server, k.back = c.server, time.Now().Add(-c.since)
		if got := k.held(e); (got == e.has) != c.held {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestAllIsComparedWithinAMinute: without an event, too; not so often that Consul would feel it.
func TestAllIsComparedWithinAMinute(t *testing.T) {
	k, _ := knowing()
	if k.cfg.Audit < 30*time.Second || k.cfg.Audit > time.Minute {
		t.Errorf("all is compared every %s", k.cfg.Audit)
	}
}
