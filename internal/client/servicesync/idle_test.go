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
	r.real.Settled()
	before := r.real.Proxy.Asked()
	r.real.Until("five audits are over", func() bool {
		for i := range services {
			a := r.keeper.Answer(context.Background(), r.check(ids.Alloc(fmt.Sprint("a", i))))
			if a.Unknown || a.Passed || a.Warned {
				t.Fatalf("a check of which nothing was reported is %+v", a)
			}
		}
		return r.real.Proxy.Asked()[audit] > before[audit]+5
	})
	asked := 0
	after := r.real.Proxy.Asked()
	for path, n := range after {
		asked += n - before[path]
	}
	if audits := after[audit] - before[audit]; asked > 2*(audits+1) {
		t.Errorf("in %d audits Consul was asked %d times: before %v, after %v", audits, asked, before, after)
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
		slices.Sort(took)
		b.ReportMetric(milli(took[0]), "min-ms")
		b.ReportMetric(milli(took[single/2]), "p50-ms")
		b.ReportMetric(milli(took[single*99/100]), "p99-ms")
		b.ReportMetric(milli(took[single-1]), "max-ms")
		begun := time.Now()
		for i := single; i < most; i++ {
			r.run(ids.Alloc(fmt.Sprint("a", i)), web("blue"))
		}
		r.real.Until("all are registered", func() bool { return *r.keeper.Count() == count(most, 0) })
		b.ReportMetric((most-single)/time.Since(begun).Seconds(), "registered/s")
		r.stop()
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

func count(all, unregistered int) servicesync.Count {
	return servicesync.Count{All: all, Unregistered: unregistered}
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
