package servicesync

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/derive/service"
	model "berth/internal/model/consul"
)

// Count is how many services are to be in Consul, and how many of them are not.
type Count struct{ All, Unregistered int }

// Count counts them.
func (k *Keeper) Count() *Count {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &Count{}
	for _, e := range k.wanted {
		if e.state != present {
			continue
		}
		out.All++
		if !e.registered {
			out.Unregistered++
		}
	}
	return out
}

// Standing is how a service stands in Consul.
type Standing struct {
	Service    model.Service // with the tags that it has there
	Task       string        // that answers for it; empty: the group
	Registered bool
	Why        string    // it is not, or can't be looked at; empty: nothing stands in its way
	Since      time.Time // it stands so
}

// Of is how the services of an alloc stand, ordered by their ids.
func (k *Keeper) Of(id ids.Alloc) (out []Standing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.wanted {
		if e.alloc != id || e.gone {
			continue
		}
		s := Standing{
			Service:    *e.of.Service,
			Task:       e.task,
			Registered: e.registered,
			Why:        e.why,
			Since:      e.since,
		}
		if e.of.Service.EnableTagOverride && e.tags != nil {
			s.Service.Tags = e.tags.Tags
		}
		if s.Why == "" && !e.registered {
			s.Why = map[presence]string{
				unsure: "the agent has yet to find its task",
				absent: "its task does not run",
			}[e.state]
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Standing) int { return strings.Compare(a.Service.ID, b.Service.ID) })
	return out
}

// stands notes how a service stands.
func (e *entry) stands(registered bool, why string) {
	if e.registered != registered {
		e.since = time.Now()
	}
	e.registered, e.why = registered, why
}

// Attributes are those that the agent of Consul gives the node.
func (k *Keeper) Attributes() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]string{model.AttributeServices: "1"}
	if k.node != "" {
		out["consul.version"], out[model.AttributeNode] = k.self.Version, k.node
		out[model.AttributeDatacenter] = k.self.Datacenter
	}
	if k.self.GRPC > 0 {
		out[model.AttributeGRPC] = strconv.Itoa(k.self.GRPC)
	}
	return out
}

// Envoy is the newest version of it that the agent of Consul knows; empty: it was not reached yet, or says none.
func (k *Keeper) Envoy() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.self.Envoy
}

// Moved returns a channel that is closed when what Registered says may have changed.
func (k *Keeper) Moved() <-chan struct{} { return k.moved.C() }

// Changed returns a channel that is closed when Attributes changes.
func (k *Keeper) Changed() <-chan struct{} { return k.changed.C() }

// Leave takes the services out that a task answers for, whose run is about to end, and waits until they are, for a
// while: the end of a task does not wait for a Consul that is away.
func (k *Keeper) Leave(ctx context.Context, id ids.Alloc, task string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k.mu.Lock()
	for _, e := range k.wanted {
		if e.alloc == id && e.task == task {
			k.left[key{id, task}] = time.Now()
			break
		}
	}
	k.mu.Unlock()
	k.take(k.cfg.Allocs.Served())
	for {
		moved := k.moved.C()
		if !k.remains(id, task) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
	}
}

// remains reports whether a service of a task is registered still that is not to be.
func (k *Keeper) remains(id ids.Alloc, task string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.wanted {
		if e.alloc == id && (e.task == task || e.task == "") && e.state == absent && e.registered {
			return true
		}
	}
	return false
}

// Report says to Consul what a script has found.
func (k *Keeper) Report(ctx context.Context, c *service.Check, a service.State) error {
	status := model.Critical
	switch {
	case a.Status == service.Pending:
		return nil // it has yet to be found out
	case a.Warned:
		status = model.Warning
	case a.Status == service.Success:
		status = model.Passing
	}
	err := k.known(c.Service.ID).Tell(ctx, c.Consul.ID, status, a.Output)
	if fault.Has(err, fault.NotFound) {
		k.loop.Mark(c.Service.ID) // it is registered first, and heard of with its next answer
		return nil
	}
	return err
}

// mayHaveSidecar reports whether a proxy beside a service may be registered: of what an earlier agent registered that
// is not known.
func (k *Keeper) mayHaveSidecar(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wanted[id] == nil || k.wanted[service.SidecarID(id)] != nil
}

// Registered says why a service is not registered yet, as an error of kind NotReady; nil: it is.
func (k *Keeper) Registered(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.wanted[id]
	if e != nil && e.registered {
		return nil
	}
	why := "that is under way"
	if e != nil && e.why != "" {
		why = e.why
	}
	return fault.New(fault.NotReady, "wait for", "service "+id, "it is not registered in Consul yet: "+why)
}
