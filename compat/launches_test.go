package compat

import (
	"fmt"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// greeter is launched with parameters, nightly by the clock.
const (
	greeter = `
job "greeter" {
  type = "batch"
  parameterized {
    payload       = "required"
    meta_required = ["who"]
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      dispatch_payload {
        file = "in.txt"
      }
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $NOMAD_META_who: $(cat local/in.txt)"]
      }
    }
  }
}`
	nightly = `
job "nightly" {
  type = "batch"
  periodic {
    crons     = ["0 3 * * *"]
    time_zone = "Europe/Berlin"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/true"
      }
    }
  }
}`
)

// launched drives jobs that launch others: a dispatch has its payload and its meta in the task, one token makes one job
// of two dispatches, and what a periodic job is forced to launch runs to its end.
func launched(a *agent) {
	for _, hcl := range []string{greeter, nightly} {
		_, _, err := a.Jobs().Register(parse(a, hcl), nil)
		a.ok(err)
	}
	if _, _, err := a.Jobs().Dispatch("greeter", nil, []byte("x"), "", nil); err == nil ||
		!strings.Contains(err.Error(), "who") {
		a.t.Errorf("a dispatch without the meta it needs: %v", err)
	}
	opts := &api.WriteOptions{IdempotencyToken: "order-17"}
	one, _, err := a.Jobs().Dispatch("greeter", map[string]string{"who": "you"}, []byte("it is late"), "", opts)
	a.ok(err)
	same, _, err := a.Jobs().DispatchOpts(&api.DispatchOptions{
		JobID:    "greeter",
		Meta:     map[string]string{"who": "you"},
		Payload:  []byte("it is late"),
		Priority: 60,
	}, opts)
	a.ok(err)
	if !strings.HasPrefix(one.DispatchedJobID, "greeter/dispatch-") || same.DispatchedJobID != one.DispatchedJobID {
		a.t.Errorf("two dispatches with one token launched %q and %q", one.DispatchedJobID, same.DispatchedJobID)
	}
	if alloc := completed(a, one.DispatchedJobID); alloc != "" {
		if got := printed(a, alloc); got != "you: it is late\n" {
			a.t.Errorf("the task printed %q", got)
		}
	}
	sentBack(a, one.DispatchedJobID, "greeter")
	evalID, _, err := a.Jobs().PeriodicForce("nightly", nil)
	a.ok(err)
	eval, _, err := a.Evaluations().Info(evalID, nil)
	a.ok(err)
	if !strings.HasPrefix(eval.JobID, "nightly/periodic-") {
		a.t.Errorf("what was forced is %q", eval.JobID)
	}
	completed(a, eval.JobID)
	for id, prefix := range map[string]string{"greeter": "greeter/dispatch-", "nightly": "nightly/periodic-"} {
		sum, _, err := a.Jobs().Summary(id, nil)
		a.ok(err)
		if sum.Children == nil || sum.Children.Dead != 1 {
			a.t.Errorf("children of %s: %+v", id, sum.Children)
		}
		list, _, err := a.Jobs().PrefixList(prefix)
		a.ok(err)
		if len(list) != 1 || list[0].ParentID != id {
			a.t.Errorf("%s launched %+v", id, list)
		}
		_, _, err = a.Jobs().Deregister(id, true, nil)
		a.ok(err)
	}
}

// sentBack registers a job as the client read it, which is what "job inspect" prints and "job run -json" sends: with
// all that the servers wrote into it. It is taken; what the servers write of what is launched stays as it was, and is
// named, for whoever takes such a file for a job of another name would ask for it in vain.
func sentBack(a *agent, id, parent string) {
	a.t.Helper()
	read, _, err := a.Jobs().Info(id, nil)
	a.ok(err)
	reply, _, err := a.Jobs().Register(read, nil)
	a.ok(err)
	for _, name := range []string{"ParentID", "Dispatched", "DispatchIdempotencyToken", "Payload"} {
		if !strings.Contains(reply.Warnings, name+" has no effect") {
			a.t.Errorf("of %s nothing is said: %q", name, reply.Warnings)
		}
	}
	if n := strings.Count(reply.Warnings, "has no effect"); n != 4 {
		a.t.Errorf("of what else servers write it is said: %q", reply.Warnings)
	}
	now, _, err := a.Jobs().Info(id, nil)
	a.ok(err)
	if now.ParentID == nil || *now.ParentID != parent || !now.Dispatched || string(now.Payload) != string(read.Payload) ||
		*now.DispatchIdempotencyToken != *read.DispatchIdempotencyToken || *now.Version != *read.Version {
		a.t.Errorf("what was launched is another one by now: %+v", now)
	}
	mine, _, err := a.Jobs().Info(parent, nil)
	a.ok(err)
	if reply, _, err = a.Jobs().Register(mine, nil); err != nil || strings.Contains(reply.Warnings, "has no effect") {
		a.t.Errorf("a job that a person wrote, sent back: %+v, %v", reply, err)
	}
}

// completed waits until the one allocation of a job has completed.
func completed(a *agent, job string) (alloc string) {
	a.t.Helper()
	a.eventually(job+" completes", func() error {
		list, _, err := a.Jobs().Allocations(job, true, nil)
		for _, s := range list {
			if alloc = s.ID; s.ClientStatus == "complete" {
				return nil
			}
			err = fmt.Errorf("%s is %s", s.ID, s.ClientStatus)
		}
		if err == nil {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	return alloc
}

// printed is all that the task of an allocation has printed.
func printed(a *agent, id string) (text string) {
	a.t.Helper()
	alloc, _, err := a.Allocations().Info(id, nil)
	a.ok(err)
	stop := make(chan struct{})
	defer close(stop)
	frames, errs := a.AllocFS().Logs(alloc, false, "t", "stdout", "start", 0, stop, nil)
	for {
		select {
		case f, ok := <-frames:
			if !ok || f == nil {
				return text
			}
			text += string(f.Data)
		case err := <-errs:
			a.ok(err)
		}
	}
}
