package compat

import (
	"context"
	"time"

	"github.com/hashicorp/nomad/api"
)

const announced = `
job "announced" {
  group "g" {
    service {
      name     = "announced"
      provider = "nomad"
      address  = "10.9.8.7"
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["600"]
      }
    }
  }
}
`

// eventsAreFollowed follows what a job does from its registration to its purge, as clients that react to it do, and
// decodes each object by the client's own means.
func eventsAreFollowed(a *agent) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	topics := map[api.Topic][]string{
		api.TopicJob: {"announced"}, api.TopicEvaluation: {"announced"}, api.TopicAllocation: {"announced"},
		api.TopicDeployment: {"announced"}, api.TopicService: {"announced"}, api.TopicNode: {"*"},
	}
	stream, err := a.EventStream().Stream(ctx, topics, 0, nil)
	a.ok(err)
	alloc := run(a, announced)
	_, _, err = a.Jobs().Deregister("announced", true, nil)
	a.ok(err)
	seen := map[string]bool{}
	last := uint64(0)
	for !seen["Service ServiceDeregistration"] || !seen["Node NodeRegistration"] || !seen["Job JobDeregistered"] {
		batch := <-stream
		if batch.Err != nil {
			a.t.Fatalf("after %v: %v", seen, batch.Err)
		}
		if !batch.IsHeartbeat() && batch.Index <= last {
			a.t.Fatalf("index %d comes after %d", batch.Index, last)
		}
		last = max(last, batch.Index)
		for _, e := range batch.Events {
			seen[string(e.Topic)+" "+e.Type] = true
			decoded(a, &e, alloc)
		}
	}
	for _, want := range []string{
		"Job JobRegistered", "Evaluation JobRegistered", "Evaluation PlanResult", "Allocation PlanResult",
		"Allocation AllocationUpdated", "Deployment PlanResult", "Service ServiceRegistration",
	} {
		if !seen[want] {
			a.t.Errorf("there was no %s in %v", want, seen)
		}
	}
}

// decoded reads the object of an event.
func decoded(a *agent, e *api.Event, of *api.Allocation) {
	var id string
	switch e.Topic {
	case api.TopicJob:
		o, err := e.Job()
		a.ok(err)
		id = *o.ID
	case api.TopicEvaluation:
		o, err := e.Evaluation()
		a.ok(err)
		id = o.ID
	case api.TopicAllocation:
		o, err := e.Allocation()
		a.ok(err)
		if id = o.ID; o.Job != nil || o.TaskGroup != "g" || o.ID != of.ID {
			a.t.Errorf("the allocation of an event is %+v", o)
		}
	case api.TopicDeployment:
		o, err := e.Deployment()
		a.ok(err)
		id = o.ID
	case api.TopicNode:
		o, err := e.Node()
		a.ok(err)
		id = o.ID
	case api.TopicService:
		o, err := e.Service()
		a.ok(err)
		if id = o.ID; o.Address != "10.9.8.7" || o.AllocID != of.ID {
			a.t.Errorf("the service of an event is %+v", o)
		}
	}
	if id != e.Key {
		a.t.Errorf("the event of %s %s has the object %q", e.Topic, e.Key, id)
	}
}
