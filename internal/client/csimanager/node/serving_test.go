package node

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"

	"berth/internal/client/csimanager/entry"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// TestWhatADaemonServesIsHeldUntilItsPluginEnded: what is unmounted by the node may still be written by the plugin's
// process; the plugin's OK to the unstaging is not enough before that run is over.
func TestWhatADaemonServesIsHeldUntilItsPluginEnded(t *testing.T) {
	unstage := entry.Step{Verb: entry.Unstage}
	notFound := &csi.Error{Code: codes.NotFound, Retry: volume.RetryVerify, Sent: true}
	for fs, held := range map[string]bool{"fuse.s3fs": true, "ext4": false} {
		vs := madeState(t, "a")
		run := entry.Run{Alloc: "plugin", Attempt: 3}
		vs.entry.Pubs["a"].By = run
		vs.entry.Unmounts(entry.Step{Verb: entry.Unpublish, Alloc: "a"}, entry.Mount{Path: "/m", FSType: fs})
		k, conn := keeperOf(t, vs), connectionOf("/base")
		conn.Info.Alloc, conn.Info.Attempt = run.Alloc, run.Attempt
		for _, answer := range []error{nil, notFound} {
			err := k.stillServed(unstage, answer, k.alive(testKey, conn))
			if wait := err != nil && !errors.Is(err, notFound); wait != held {
				t.Errorf("%s, answered %v: held %v (%v)", fs, answer, wait, err)
			}
		}
		conn.Info.Attempt++
		if err := k.stillServed(unstage, nil, k.alive(testKey, conn)); err != nil {
			t.Errorf("%s: the next run of the plugin is there, and it is held: %v", fs, err)
		}
	}
}

// TestACallIsUnansweredUntilItsRunIsOver: an answer to a later call is none to it.
func TestACallIsUnansweredUntilItsRunIsOver(t *testing.T) {
	vs := madeState(t, "a")
	k, conn := keeperOf(t, vs), connectionOf("/base")
	conn.Info.Alloc, conn.Info.Attempt = "plugin", 1
	ask := func(err error) {
		vs.asks(runOf(conn), k.alive(testKey, conn))
		if len(vs.entry.Unanswered) == 0 {
			t.Error("a call that is under way counts as answered")
		}
		k.answered(testKey, runOf(conn), err)
	}
	late := &csi.Error{Code: codes.DeadlineExceeded, Sent: true}
	for _, c := range []struct {
		err        error
		unanswered int
	}{
		{nil, 0},
		{&csi.Error{Code: codes.Internal, Sent: true}, 0},
		{&csi.Error{Code: codes.DeadlineExceeded}, 0},
		{late, 1},
		{nil, 1},
		{late, 1},
	} {
		if ask(c.err); len(vs.entry.Unanswered) != c.unanswered {
			t.Errorf("after %v: %v are unanswered", c.err, vs.entry.Unanswered)
		}
	}
	conn.Info.Attempt++
	if ask(nil); len(vs.entry.Unanswered) != 0 {
		t.Errorf("of a run that is over %v are unanswered", vs.entry.Unanswered)
	}
}
