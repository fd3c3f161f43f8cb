package servicesync_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"berth/internal/base/ids"
	"berth/internal/client/servicesync"
	"berth/internal/testkit/consulagent"
)

// TestAnIdleNodeAsksConsulSeldom: as long as nothing changes an audit asks twice, which is less than three times a
// minute, and nobody asks for the checks: their answers are heard of when they turn, and are those of Consul.
func TestAnIdleNodeAsksConsulSeldom(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.audit = time.Second
	r.start()
	const services = 20
	for i := range services {
		r.run(ids.Alloc(fmt.Sprint("a", i)), web("blue"))
	}
	r.real.Until("all are registered", func() bool { return *r.keeper.Count() == count(services, 0) })
	const audit, health = "/v1/agent/services", "/v1/health/node/" + consulagent.Node
	r.real.Until("the answers are heard of", func() bool {
		r.keeper.Answer(context.Background(), r.check("a0"))
		return r.real.Proxy.Asked()[health] > 0 && len(r.real.Status("a19")) == 1
	})
	// over is how many audits there were until so many are, and what else Consul was asked for meanwhile.
	over := func(most int) (audits, asked int, of map[string]int) {
		before := r.real.Proxy.Asked()
		r.real.Until("audits are over", func() bool {
			for i := range services {
				a := r.keeper.Answer(context.Background(), r.check(ids.Alloc(fmt.Sprint("a", i))))
				if a.Unknown || a.Passed || a.Warned {
					t.Fatalf("a check of which nothing was reported is %+v", a)
				}
			}
			return r.real.Proxy.Asked()[audit] >= before[audit]+most
		})
		of = map[string]int{}
		after := r.real.Proxy.Asked()
		for path, n := range after {
			if n > before[path] {
				of[path] = n - before[path]
				asked += of[path]
			}
		}
		return of[audit], asked, of
	}
	r.real.Settled()
	r.real.Until("the keeper has heard all that the catalog shows", func() bool {
		audits, asked, _ := over(1)
		return asked <= 2*(audits+1)
	})
	if audits, asked, of := over(6); asked > 2*(audits+1) {
		t.Errorf("in %d audits Consul was asked %d times: %v", audits, asked, of)
	}
	r.passes("a3")
	r.real.Until("it is heard that a check passes", func() bool {
		return r.keeper.Answer(context.Background(), r.check("a3")).Passed
	})
	r.real.Proxy.Away(true)
	defer r.real.Proxy.Away(false)
	r.real.Kill()
	r.real.Until("it is not known what a check has found", func() bool {
		return r.keeper.Answer(context.Background(), r.check("a3")).Unknown
	})
}

// BenchmarkServicesInConsul is how fast a node has its services in Consul, and what they cost it.
func BenchmarkServicesInConsul(b *testing.B) {
	const single, most = 200, 1000
	for range b.N {
		r := newRig(b)
		var took []time.Duration
		for i := range single {
			name := fmt.Sprint("a", i)
			begun := time.Now()
			r.run(ids.Alloc(name), web("blue"))
			for len(r.real.Catalog(name)) == 0 {
				runtime.Gosched()
			}
			took = append(took, time.Since(begun))
		}
		measured(b, took, "")
		measured(b, edits(r, single), "edit-")
		measured(b, returns(r), "back-")
		begun := time.Now()
		for i := single; i < most; i++ {
			r.run(ids.Alloc(fmt.Sprint("a", i)), web("blue"))
		}
		r.real.Until("all are registered", func() bool { return *r.keeper.Count() == count(most, 0) })
		b.ReportMetric((most-single)/time.Since(begun).Seconds(), "registered/s")
		r.stop()
		r.keeper = nil // it holds what the next one will
		without := heap()
		begun = time.Now()
		r.start()
		r.real.Until("all are known again", func() bool { return *r.keeper.Count() == count(most, 0) })
		b.ReportMetric(most/time.Since(begun).Seconds(), "synced/s")
		b.ReportMetric((heap()-without)/1024, "KiB")
		r.stop()
		r.real.Kill()
	}
}

// measured reports the least, the median, the 99th percentile and the most.
func measured(b *testing.B, took []time.Duration, of string) {
	slices.Sort(took)
	last := len(took) - 1
	for name, i := range map[string]int{"min": 0, "p50": (last + 1) / 2, "p99": (last + 1) * 99 / 100, "max": last} {
		b.ReportMetric(milli(took[i]), of+name+"-ms")
	}
}

// edits is how long it takes until an edit in the catalog is sent to the agent: a check that turns before takes it
// back.
func edits(r *rig, most int) (took []time.Duration) {
	for i := range most {
		name := fmt.Sprint("a", i)
		shown := r.real.Tags(name, "blue")
		begun := time.Now()
		r.real.Edit(shown, "green")
		for r.registrations(name) < 2 {
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(begun))
	}
	return took
}

// returns is how long it takes until what came while Consul was away is registered, after it answers again.
func returns(r *rig) (took []time.Duration) {
	for i := range 20 {
		name := fmt.Sprint("late", i)
		r.real.Proxy.Away(true)
		r.run(ids.Alloc(name), web("blue"))
		r.hears("Service " + name + " is not registered in Consul: ")
		begun := time.Now()
		r.real.Proxy.Away(false)
		for r.registrations(name) == 0 {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(begun))
		r.end(ids.Alloc(name))
		r.gone(name)
	}
	return took
}

func count(all, unregistered int) servicesync.Count {
	return servicesync.Count{All: all, Unregistered: unregistered}
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what was kept for those who come again, too
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
