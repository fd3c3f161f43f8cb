package jobrules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/internal/httpapi/jobrules"
)

// Each rule for what becomes of allocations on silent nodes: what is taken, and what is refused with which words.
func TestRulesForSilentNodes(t *testing.T) {
	volume := func(access string, readOnly bool) map[string]*api.VolumeRequest {
		return map[string]*api.VolumeRequest{"data": {
			Name:           "data",
			Type:           "csi",
			Source:         "v",
			AccessMode:     access,
			AttachmentMode: "file-system",
			ReadOnly:       readOnly,
		}}
	}
	hour := pointer(time.Hour)
	for name, c := range map[string]struct {
		kind    string
		d       api.DisconnectStrategy
		volumes map[string]*api.VolumeRequest
		says    string // empty: it is taken
	}{
		"nothing":          {says: ""},
		"waits":            {d: api.DisconnectStrategy{LostAfter: hour}},
		"of a system job":  {kind: "system", d: api.DisconnectStrategy{LostAfter: hour}},
		"ends on the node": {d: api.DisconnectStrategy{StopOnClientAfter: hour}},
		"is not replaced":  {d: api.DisconnectStrategy{Replace: pointer(false)}},
		"keeps the original": {
			d: api.DisconnectStrategy{LostAfter: hour, Reconcile: pointer("keep_original")},
		},
		"both times": {
			d:    api.DisconnectStrategy{LostAfter: hour, StopOnClientAfter: hour},
			says: "leave one out",
		},
		"a time below zero": {
			d:    api.DisconnectStrategy{LostAfter: pointer(-time.Hour)},
			says: "must not be negative",
		},
		"ends at once": {
			d:    api.DisconnectStrategy{StopOnClientAfter: pointer(time.Duration(0))},
			says: "greater than zero",
		},
		"a system job's node": {
			kind: "system",
			d:    api.DisconnectStrategy{StopOnClientAfter: hour},
			says: "for service and batch jobs",
		},
		"another strategy": {
			d:    api.DisconnectStrategy{Reconcile: pointer("best")},
			says: "reconcile must be one of",
		},
		"two writers": {
			d:       api.DisconnectStrategy{LostAfter: hour},
			volumes: volume("single-node-writer", false),
			says:    "would have two allocations that write volume \"data\"",
		},
		"two writers of many nodes": {
			d:       api.DisconnectStrategy{LostAfter: hour},
			volumes: volume("multi-node-single-writer", false),
			says:    "replace = false",
		},
		"one writer that waits": {
			d:       api.DisconnectStrategy{LostAfter: hour, Replace: pointer(false)},
			volumes: volume("single-node-writer", false),
		},
		"one writer that is ended": {
			d:       api.DisconnectStrategy{StopOnClientAfter: hour},
			volumes: volume("single-node-writer", false),
		},
		"many writers": {
			d:       api.DisconnectStrategy{LostAfter: hour},
			volumes: volume("multi-node-multi-writer", false),
		},
		"readers": {
			d:       api.DisconnectStrategy{LostAfter: hour},
			volumes: volume("single-node-reader-only", true),
		},
	} {
		j := launching(func(j *api.Job) {
			*j.Type = "service"
			if c.kind != "" {
				*j.Type = c.kind
			}
			j.TaskGroups[0].Disconnect, j.TaskGroups[0].Volumes = &c.d, c.volumes
		})
		err := errors.Join(jobrules.Validate(j)...)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s is refused: %v", name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) ||
			strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q alone", name, err, c.says)
		}
	}
}

// The old forms become the block, with a warning that names it; the block wins where it stands beside them, and what
// every job is shown with says nothing.
func TestOldFormsForSilentNodesBecomeTheBlock(t *testing.T) {
	of := func(edit func(*api.TaskGroup)) (*api.DisconnectStrategy, []string) {
		j := launching(func(j *api.Job) { *j.Type = "service"; edit(j.TaskGroups[0]) })
		if err := errors.Join(jobrules.Validate(j)...); err != nil {
			t.Error(err)
		}
		return j.TaskGroups[0].Disconnect, jobrules.Warnings(j)
	}
	warned := func(w []string, of string) bool {
		return slices.ContainsFunc(w, func(s string) bool { return strings.Contains(s, of+" is the old form") })
	}
	d, w := of(func(g *api.TaskGroup) { g.MaxClientDisconnect = pointer(time.Hour) })
	if *d.LostAfter != time.Hour || !*d.Replace || *d.Reconcile != "best_score" || !warned(w, "max_client_disconnect") {
		t.Errorf("max_client_disconnect: %+v %q", d, w)
	}
	d, w = of(func(g *api.TaskGroup) { g.StopAfterClientDisconnect = pointer(time.Hour) })
	if *d.StopOnClientAfter != time.Hour || *d.LostAfter != 0 || !warned(w, "stop_after_client_disconnect") {
		t.Errorf("stop_after_client_disconnect: %+v %q", d, w)
	}
	d, w = of(func(g *api.TaskGroup) { g.PreventRescheduleOnLost = pointer(true) })
	if *d.Replace || !warned(w, "prevent_reschedule_on_lost") {
		t.Errorf("prevent_reschedule_on_lost: %+v %q", d, w)
	}
	if d, w := of(func(g *api.TaskGroup) { g.PreventRescheduleOnLost = pointer(false) }); d != nil || len(w) > 0 {
		t.Errorf("what every job is shown with: %+v %q", d, w)
	}
	d, w = of(func(g *api.TaskGroup) {
		g.Disconnect = &api.DisconnectStrategy{LostAfter: pointer(time.Minute)}
		g.MaxClientDisconnect = pointer(time.Hour)
	})
	if *d.LostAfter != time.Minute || !warned(w, "max_client_disconnect") {
		t.Errorf("both: %+v %q", d, w)
	}
}
