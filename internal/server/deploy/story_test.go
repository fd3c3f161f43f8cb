package deploy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/derive/progress"
	"berth/internal/model/alloc"
	"berth/internal/model/deployment"
	"berth/internal/model/job"
	"berth/internal/server/fsm"
	"berth/internal/server/fsm/deployments"
)

func canaries(n int, itself bool) func(*job.UpdateStrategy) {
	return func(u *job.UpdateStrategy) { u.Canary, u.AutoPromote = n, itself }
}

func reverting(u *job.UpdateStrategy) { u.AutoRevert = true }

func atOnce(u *job.UpdateStrategy) { u.HealthyDeadline, u.ProgressDeadline = 20*time.Second, 0 }

func byHand(u *job.UpdateStrategy) { u.HealthCheck = alloc.ManualHealth }

const done = deployment.Successful + ": " + deployment.WhySuccessful

// TestAStartCostsNoEntryMore: the deployment of a new job begins with its placement and succeeds with the health of its
// allocs, in commands that are written anyway.
func TestAStartCostsNoEntryMore(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 1))
		h.pass(9 * time.Second)
		h.want("v0 running: Deployment is running\n0:v0")
		h.pass(3 * time.Second)
		h.want("v0 " + done + "\n0:v0+")
		if got := h.since(); got != "alloc-health plan-apply" {
			t.Errorf("the servers proposed %s", got)
		}
		if !h.version(0).Stable {
			t.Error("the version is not stable")
		}
	})
}

// TestARollingUpdate: one alloc after another is replaced, and the update is over with the health of the last.
func TestARollingUpdate(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 3))
		h.pass(12 * time.Second)
		h.run(web("b", 3))
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1 1:v0+ 2:v0+")
		h.pass(12 * time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1+ 1:v1 2:v0+")
		h.pass(24 * time.Second)
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+ 1:v1+ 2:v1+")
	})
}

// TestAnUpdateInPlaceIsADeployment that is over at once: the version is one to go back to.
func TestAnUpdateInPlaceIsADeployment(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 1))
		h.pass(12 * time.Second)
		h.run(web("a", 1, func(u *job.UpdateStrategy) { u.MinHealthyTime = 5 * time.Second }))
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+")
		if !h.version(1).Stable {
			t.Error("the version is not stable")
		}
		snap := h.Store.Snapshot()
		allocs := slices.Collect(snap.AllocsByJob(nil, ids.DefaultNamespace, "web"))
		for _, d := range h.deployments() { // the first one's alloc is the second one's now
			g := progress.Of(d, allocs).Groups[allocs[0].TaskGroup]
			if g.Placed != 1 || g.Healthy != 1 || g.Unhealthy != 0 {
				t.Errorf("version %d: %+v", d.JobVersion, g)
			}
		}
	})
}

// TestWhatComesNoFurtherFails: when no alloc became healthy for the progress deadline the deployment fails, and nothing
// more that works is replaced.
func TestWhatComesNoFurtherFails(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.run(web("b", 2))
		h.pass(4*time.Minute + 55*time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1 1:v0+")
		h.pass(6 * time.Second)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline\n0:v1 1:v0+")
		h.pass(10 * time.Minute)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline\n0:v1 1:v0+")
	})
}

// TestWhatFailsGoesBack to the newest stable version, once: a version that says the same as the one that failed is not
// gone back to.
func TestWhatFailsGoesBack(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(web("a", 2, reverting))
		h.pass(12 * time.Second)
		h.run(web("b", 2, reverting))
		h.pass(5*time.Minute + 2*time.Second)
		h.pass(15 * time.Second)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline - rolling back to job version 0\n" +
			"v2 " + done + "\n0:v2+ 1:v2+")
		if !h.version(2).Stable || h.version(1).Stable {
			t.Error("the version that was gone back to is not stable, or the failed one is")
		}
		// Now what was good breaks, too.
		h.broken["a"] = true
		for _, a := range h.live() {
			h.fails(a)
		}
		h.pass(time.Minute)
		h.Must(t, &deployments.Stable{Namespace: ids.DefaultNamespace, Job: "web", Version: 2})
		h.run(web("c", 2, reverting))
		h.broken["c"] = true
		h.pass(5*time.Minute + 2*time.Second)
		h.pass(6 * time.Minute)
		got := h.shown()
		for _, part := range []string{
			"v3 failed: Failed due to progress deadline - rolling back to job version 0",
			"v4 failed: Failed due to progress deadline - not rolling back: the newest stable version, 0, says the same",
		} {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in\n%s", part, got)
			}
		}
		if n := len(h.deployments()); n > 5 {
			t.Errorf("it went on to %d deployments", n)
		}
	})
}

// TestWhatWaitsForStorageIsNotGoneBackFrom: a version whose allocs wait for their volumes fails in time, with what they
// wait for, and the version before, which would wait for the same, is not registered again.
func TestWhatWaitsForStorageIsNotGoneBackFrom(t *testing.T) {
	inHouse(t, func(h *house) {
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			h.node(n, "disk")
		}
		h.broken["b"] = true
		stored := func(command string) *job.Job {
			j := web(command, 1, reverting)
			j.TaskGroups[0].Volumes = map[string]*job.VolumeRequest{"v": {Name: "v", Type: "host", Source: "disk"}}
			return j
		}
		h.run(stored("a"))
		h.pass(12 * time.Second)
		h.run(stored("b"))
		h.nodes()
		waits := *h.live()[0]
		waits.TaskStates = map[string]*alloc.TaskState{"t": {
			State:  alloc.TaskPending,
			Events: []*alloc.TaskEvent{{Type: alloc.EventStorageWaiting, DisplayMessage: "its disk is not there"}},
		}}
		h.Must(t, &fsm.AllocClientUpdate{Allocs: []*alloc.Alloc{&waits}, Seed: ids.New()})
		h.pass(5*time.Minute + 2*time.Second)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline: its disk is not there\n0:v1")
	})
}

// TestTheFirstThatIsNotHealthyFails a deployment without time for progress.
func TestTheFirstThatIsNotHealthyFails(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.run(web("b", 2, atOnce, reverting))
		h.pass(19 * time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1 1:v0+")
		h.pass(15 * time.Second)
		h.want("v0 " + done + "\nv1 failed: Failed due to unhealthy allocations - rolling back to job version 0\n" +
			"v2 " + done + "\n0:v2+ 1:v2+")
	})
}

// TestCanaries are tried beside what they may replace; what is lost meanwhile is replaced by its like, and what they
// are tried against goes when a person promotes them.
func TestCanaries(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 3))
		h.pass(12 * time.Second)
		h.run(web("b", 3, canaries(1, false)))
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running but requires manual promotion\n" +
			"0:v0+ 0:v1? 1:v0+ 2:v0+")
		if err := h.promote(); err == nil || !strings.Contains(err.Error(), `group "g" has 0/1 healthy canaries`) {
			t.Errorf("promoting what is not healthy: %v", err)
		}
		h.fails(h.live()[2]) // 1:v0
		h.pass(45 * time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running but requires manual promotion\n" +
			"0:v0+ 0:v1?+ 1:v0+ 2:v0+")
		h.pass(20 * time.Minute) // a person has time
		if err := h.promote(); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1+ 1:v1 2:v0+")
		h.pass(24 * time.Second)
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+ 1:v1+ 2:v1+")
		if g := h.deployments()[1].Groups["g"]; len(g.Canaries) != 1 || !g.Promoted {
			t.Errorf("the deployment remembers %+v", g)
		}
	})
}

// TestCanariesThatFailEnd and leave what they were tried against as it was.
func TestCanariesThatFailEnd(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.run(web("b", 2, canaries(2, true), reverting))
		h.pass(time.Minute)
		h.want("v0 " + done + "\nv1 running: Deployment is running pending automatic promotion\n" +
			"0:v0+ 0:v1? 1:v0+ 1:v1?")
		h.pass(5 * time.Minute)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline - rolling back to job version 0\n" +
			"v2 " + done + "\n0:v2+ 1:v2+")
	})
}

// TestCanariesPromoteThemselves where the group says so: a whole second set takes the place of the first.
func TestCanariesPromoteThemselves(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.since()
		h.run(web("b", 2, canaries(2, true)))
		h.pass(13 * time.Second)
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+ 1:v1+")
		// The health brings the promotion, and the plan after it the success.
		if got := h.since(); strings.Contains(got, "deployment") || strings.Count(got, "alloc-health") != 1 {
			t.Errorf("the servers proposed %s", got)
		}
	})
}

// onEveryNode makes a system job of which a version is tried on half of the nodes.
func onEveryNode(command string) *job.Job {
	j := web(command, 1, canaries(50, false), reverting)
	j.Type = job.TypeSystem
	j.TaskGroups[0].ReschedulePolicy, j.TaskGroups[0].Scaling = nil, nil
	return j
}

// TestCanariesOfASystemJob take the place of the old version on a part of its nodes; promoted, the rest follows node by
// node.
func TestCanariesOfASystemJob(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(onEveryNode("a"))
		h.pass(12 * time.Second)
		h.want("v0 " + done + "\n0:v0+ 0:v0+ 0:v0+ 0:v0+")
		h.run(onEveryNode("b"))
		h.pass(5 * time.Second)
		if err := h.promote(); err == nil || !strings.Contains(err.Error(), "0/2 healthy canaries") {
			t.Errorf("canaries that are not healthy are promoted: %v", err)
		}
		h.pass(time.Minute)
		h.want("v0 " + done + "\nv1 running: " + deployment.WhyNeedsPromote + "\n0:v0+ 0:v0+ 0:v1?+ 0:v1?+")
		if err := h.promote(); err != nil {
			t.Fatal(err)
		}
		h.pass(5 * time.Second)
		h.want("v0 " + done + "\nv1 running: " + deployment.WhyRunning + "\n0:v0+ 0:v1+ 0:v1+ 0:v1")
		h.pass(20 * time.Second)
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+ 0:v1+ 0:v1+ 0:v1+")
	})
}

// TestCanariesOfASystemJobThatFailAreGoneBackFrom on the nodes where they were tried, without another trial.
func TestCanariesOfASystemJobThatFailAreGoneBackFrom(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(onEveryNode("a"))
		h.pass(12 * time.Second)
		h.run(onEveryNode("b"))
		h.pass(5*time.Minute + 2*time.Second)
		h.pass(time.Minute)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline - rolling back to job version 0\n" +
			"v2 " + done + "\n0:v2+ 0:v2+ 0:v2+ 0:v2+")
	})
}

// TestANewVersionCancels the deployment before it, with its canaries; so does the end of the job.
func TestANewVersionCancels(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.run(web("b", 2, canaries(1, false)))
		h.pass(time.Second)
		h.run(web("c", 2, canaries(1, false)))
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 cancelled: Cancelled due to newer version of job\n" +
			"v2 running: Deployment is running but requires manual promotion\n0:v0+ 0:v2? 1:v0+")
		h.Must(t, &fsm.JobDeregister{Namespace: ids.DefaultNamespace, Job: "web", Seed: ids.New()})
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 cancelled: Cancelled due to newer version of job\n" +
			"v2 cancelled: Cancelled because job is stopped\n")
	})
}

// TestHealthByHand: where a person decides, nothing goes on before that.
func TestHealthByHand(t *testing.T) {
	inHouse(t, func(h *house) {
		say := func(good, bad []ids.Alloc) error {
			_, _, err := h.Propose(t.Context(),
				&deployments.SetHealth{Deployment: h.newest(), Healthy: good, Unhealthy: bad, Seed: ids.New()})
			return err
		}
		h.run(web("a", 2, byHand))
		h.pass(time.Minute)
		h.want("v0 running: Deployment is running\n0:v0 1:v0")
		a := h.live()
		if err := say([]ids.Alloc{a[0].ID}, []ids.Alloc{a[1].ID}); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		h.want("v0 running: Deployment is running\n0:v0+ 1:v0")
		if err := say([]ids.Alloc{a[1].ID}, nil); err != nil {
			t.Fatal(err)
		}
		h.want("v0 " + done + "\n0:v0+ 1:v0+")
		if err := say([]ids.Alloc{a[1].ID}, nil); err == nil {
			t.Error("a deployment that is over takes health")
		}
		h.run(web("b", 2))
		h.pass(time.Second)
		err := say([]ids.Alloc{h.live()[0].ID}, nil)
		if err == nil || !strings.Contains(err.Error(), "its tasks decide") {
			t.Errorf("health of what is not decided by hand: %v", err)
		}
	})
}

// TestAPauseHoldsEverything but what is lost, and takes no time from the deadline.
func TestAPauseHoldsEverything(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 3))
		h.pass(12 * time.Second)
		h.run(web("b", 3))
		h.pass(time.Second)
		h.Must(t, &deployments.Pause{Deployment: h.newest(), Pause: true, Seed: ids.New()})
		h.fails(h.live()[2]) // 2:v0 comes back as it was
		h.pass(20 * time.Minute)
		h.want("v0 " + done + "\nv1 paused: Deployment is paused\n0:v1+ 1:v0+ 2:v0+")
		h.Must(t, &deployments.Pause{Deployment: h.newest(), Seed: ids.New()})
		h.pass(25 * time.Second)
		h.want("v0 " + done + "\nv1 " + done + "\n0:v1+ 1:v1+ 2:v1+")
		if _, _, err := h.Propose(t.Context(), &deployments.Fail{Deployment: h.newest()}); err == nil ||
			err.Error() != "can't fail terminal deployment" {
			t.Errorf("failing what is over: %v", err)
		}
	})
}

// TestAPersonFails a deployment, which goes back where that is asked for.
func TestAPersonFails(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 2, reverting))
		h.pass(12 * time.Second)
		h.run(web("b", 2, reverting))
		h.pass(time.Second)
		r := h.Must(t, &deployments.Fail{Deployment: h.newest(), Seed: ids.New()}).(*deployments.Decided)
		if r.Reverted == nil || *r.Reverted != 0 || r.Eval == nil {
			t.Errorf("it came to %+v", r)
		}
		h.pass(13 * time.Second)
		h.want("v0 " + done + "\nv1 failed: Deployment marked as failed - rolling back to job version 0\n" +
			"v2 " + done + "\n0:v2+ 1:v2+")
	})
}

// TestANewLeaderGoesOn with what is under way: its deadlines begin anew, which can only be later.
func TestANewLeaderGoesOn(t *testing.T) {
	inHouse(t, func(h *house) {
		h.broken["b"] = true
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.run(web("b", 2))
		h.pass(4 * time.Minute)
		h.stop()
		h.lead()
		h.pass(2 * time.Minute)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v1 1:v0+")
		h.pass(3*time.Minute + 5*time.Second)
		h.want("v0 " + done + "\nv1 failed: Failed due to progress deadline\n0:v1 1:v0+")
	})
}

// TestAnUpdateTakesWhatIsNotHealthyFirst: given two allocs of which the second has just come back, when another version
// comes, then the first, which is healthy, stays until its successor's turn.
func TestAnUpdateTakesWhatIsNotHealthyFirst(t *testing.T) {
	inHouse(t, func(h *house) {
		h.run(web("a", 2))
		h.pass(12 * time.Second)
		h.fails(h.live()[1])
		h.pass(33 * time.Second)
		h.want("v0 " + done + "\n0:v0+ 1:v0")
		h.run(web("b", 2))
		h.pass(time.Second)
		h.want("v0 " + done + "\nv1 running: Deployment is running\n0:v0+ 1:v1")
	})
}
