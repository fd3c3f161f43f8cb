package launch_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/ids"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/launch"
	"berth/internal/testkit/localstate"
)

// house is a cluster in which jobs are launched by the clock. Answers of its log can be lost.
type house struct {
	*localstate.Cluster
	t    *testing.T
	lost atomic.Bool
	stop func()
}

func (h *house) Propose(ctx context.Context, cmd fsm.Command) (any, uint64, error) {
	out, index, err := h.Cluster.Propose(ctx, cmd)
	if h.lost.Load() {
		return nil, 0, errors.New("the answer is lost")
	}
	return out, index, err
}

func story(t *testing.T, zone string, crons []string, tell func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{Cluster: localstate.New(t), t: t}
		h.Must(t, &fsm.JobRegister{Seed: "s", Job: &job.Job{
			Namespace:  ids.DefaultNamespace,
			ID:         "p",
			Name:       "p",
			Type:       job.TypeBatch,
			Priority:   50,
			NodePool:   "default",
			SubmitTime: time.Now().UnixNano(),
			Periodic:   &job.PeriodicConfig{Enabled: true, Specs: crons, TimeZone: zone},
			TaskGroups: []*job.TaskGroup{{Name: "g", Count: 1, Tasks: []*job.Task{{Name: "t", Driver: "exec"}}}},
		}})
		h.lead()
		defer func() { h.stop() }()
		tell(h)
	})
}

// lead begins a term; stop ends it.
func (h *house) lead() {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error)
	go func() { ended <- launch.New(h.Store, h, slog.New(slog.DiscardHandler)).Run(ctx) }()
	synctest.Wait()
	h.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	}
}

func (h *house) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// launched are the times, in a zone, in whose name children were launched.
func (h *house) launched(zone *time.Location) (out []string) {
	s := h.Store.Snapshot()
	for c := range s.Children(nil, s.Job(nil, ids.DefaultNamespace, "p")) {
		epoch, err := time.ParseDuration(strings.TrimPrefix(string(c.ID), "p/periodic-") + "s")
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, time.Unix(int64(epoch.Seconds()), 0).In(zone).Format("01-02 15:04 MST"))
	}
	slices.Sort(out)
	return out
}

func (h *house) want(zone *time.Location, want ...string) {
	h.t.Helper()
	if got := h.launched(zone); !slices.Equal(got, want) {
		h.t.Errorf("launched at %q, want %q", got, want)
	}
}

// Given a job by the clock, when leaders change before, at and long after its time, and an answer is lost, then each
// time has one child; of what was missed while nobody led there is one.
func TestEachTimeHasOneChildUnderAnyLeader(t *testing.T) {
	story(t, "UTC", []string{"0 * * * *"}, func(h *house) {
		h.pass(30 * time.Minute)
		h.want(time.UTC)
		h.stop()
		h.lead()
		h.pass(30 * time.Minute)
		h.want(time.UTC, "01-01 01:00 UTC")
		h.stop()
		h.lead()
		h.pass(30 * time.Minute)
		h.lost.Store(true)
		h.pass(30 * time.Minute)
		h.pass(5 * time.Second)
		h.lost.Store(false)
		h.pass(time.Minute)
		h.want(time.UTC, "01-01 01:00 UTC", "01-01 02:00 UTC")
		h.stop()
		h.pass(5*time.Hour + 20*time.Minute)
		h.lead()
		h.pass(time.Second)
		h.want(time.UTC, "01-01 01:00 UTC", "01-01 02:00 UTC", "01-01 07:00 UTC")
	})
}

// Given a job at 02:30 in Berlin, when the clocks go forward there, so that this time does not come, and back, so that
// it comes twice, then it is launched once on each of these days.
func TestAChangeOfTheClocksLaunchesOnce(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	story(t, "Europe/Berlin", []string{"30 2 25-27 3 *", "30 2 28-30 10 *"}, func(h *house) {
		for _, quiet := range []time.Duration{84 * 24 * time.Hour, 214 * 24 * time.Hour} { // and nobody leads
			h.stop()
			time.Sleep(quiet)
			h.lead()
			h.pass(3 * 24 * time.Hour)
		}
		h.want(berlin, "03-25 02:30 CET", "03-26 03:00 CEST", "03-27 02:30 CEST",
			"10-28 02:30 CEST", "10-29 02:30 CEST", "10-30 02:30 CET")
	})
}
