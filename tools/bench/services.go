package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"berth/api"
)

// services measures what services need: a network of their own, to be found, and a file that is run again although
// nothing has changed.
func services(runs int) func(context.Context, *report, string) error {
	return func(ctx context.Context, r *report, binary string) (err error) {
		a, err := start(binary)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.stop()) }()
		if err := until(ctx, "node ready", func() error { return a.nodeReady(ctx) }); err != nil {
			return err
		}
		if err := a.quiet(ctx); err != nil {
			return err
		}
		for _, part := range []func(context.Context, *report) error{
			func(ctx context.Context, r *report) error { return a.bridged(ctx, r, runs) },
			func(ctx context.Context, r *report) error { return a.unchanged(ctx, r, binary, runs) },
			func(ctx context.Context, r *report) error { return a.found(ctx, r, 500) },
			func(ctx context.Context, r *report) error { return a.dispatched(ctx, r, 1000) },
			func(ctx context.Context, r *report) error { return a.deployed(ctx, r, 500) },
		} {
			if err := part(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}

// bridged compares starts with a network of their own with starts without, in turn, so that what else the machine does
// meets both.
func (a *agent) bridged(ctx context.Context, r *report, runs int) error {
	own := isolated("")
	own.bridge = true
	host, bridge := &series{}, &series{}
	for i := range runs + 3 {
		if i == 3 {
			*host, *bridge = series{}, series{} // the first ones warm the caches
		}
		if err := a.once(ctx, host, fmt.Sprintf("host-%d", i), isolated("")); err != nil {
			return err
		}
		if err := a.once(ctx, bridge, fmt.Sprintf("bridge-%d", i), own); err != nil {
			return err
		}
	}
	beside := figure{name: "`exec` task in mode host, in turn with the next: registered → started", unit: "ms",
		samples: host.started}
	r.add(beside)
	r.add(figure{
		name:    "`exec` task in mode bridge: registered → started",
		unit:    "ms",
		samples: bridge.started,
		bar:     bar{text: "mode host + 10 ms", median: beside.at(0.5) + 10},
	})
	return nil
}

// unchanged runs the file of a job that runs already, from the start of the command to its end.
func (a *agent) unchanged(ctx context.Context, r *report, binary string, runs int) error {
	file := filepath.Join(a.dir, "job.nomad.hcl")
	err := os.WriteFile(file, []byte(`job "again" {
  group "g" {
    update {
      min_healthy_time = "1s"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["100000"]
      }
    }
  }
}
`), 0o600)
	if err != nil {
		return err
	}
	run := func() error {
		cmd := exec.CommandContext(ctx, binary, "job", "run", "-address", a.address, file)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := run(); err != nil {
		return err
	}
	var took []float64
	for range runs {
		begin := time.Now()
		if err := run(); err != nil {
			return err
		}
		took = append(took, ms(time.Since(begin)))
	}
	r.add(figure{
		name:    "`job run` of a file that changes nothing: the whole command",
		unit:    "ms",
		samples: took,
		bar:     bar{text: "≤ 20 ms", median: 20},
	})
	_, _, err = a.api.Jobs().Deregister(ctx, "again", api.JobDeregisterOptions{}, nil)
	return err
}

// found registers a job with many services, and looks until all are found.
func (a *agent) found(ctx context.Context, r *report, n int) error {
	job := sleeper("found", 1, isolated(""))
	g := job.TaskGroups[0]
	g.Networks = []*api.NetworkResource{{Mode: "host", DynamicPorts: []api.Port{{Label: "http"}}}}
	for i := range n {
		g.Services = append(g.Services,
			&api.Service{Name: fmt.Sprintf("s-%03d", i), PortLabel: "http", Provider: "nomad"})
	}
	begin := time.Now()
	if _, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: job}, nil); err != nil {
		return err
	}
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(time.Minute); ; {
		list, meta, err := a.api.Services().List(ctx, o)
		if err != nil {
			return err
		}
		if len(list) == 1 && len(list[0].Services) == n {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d services are not found after a minute", n)
		}
		o.WaitIndex = meta.Index
	}
	r.add(figure{
		name:    fmt.Sprintf("%d services of one job: registered → all are found", n),
		unit:    "ms",
		samples: []float64{ms(time.Since(begin))},
	})
	_, _, err := a.api.Jobs().Deregister(ctx, "found", api.JobDeregisterOptions{}, nil)
	return err
}

// dispatched dispatches a job many times, one after the other, and waits until all that was launched has ended.
func (a *agent) dispatched(ctx context.Context, r *report, n int) error {
	job := sleeper("dispatched", 1, isolated(""))
	kind := "batch"
	job.Type, job.ParameterizedJob = &kind, &api.ParameterizedJobConfig{MetaRequired: []string{"n"}}
	job.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "/bin/true"}
	if _, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: job}, nil); err != nil {
		return err
	}
	var took []float64
	begin := time.Now()
	for i := range n {
		one := time.Now()
		_, _, err := a.api.Jobs().Dispatch(ctx, &api.JobDispatchRequest{
			JobID: "dispatched",
			Meta:  map[string]string{"n": fmt.Sprint(i)},
		}, nil)
		if err != nil {
			return err
		}
		took = append(took, ms(time.Since(one)))
	}
	o := &api.QueryOptions{WaitTime: 20 * time.Second}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		sum, meta, err := a.api.Jobs().Summary(ctx, "dispatched", o)
		if err != nil {
			return err
		}
		if sum.Children != nil && sum.Children.Dead >= int64(n) {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d dispatches have not ended after five minutes: %+v", n, sum.Children)
		}
		o.WaitIndex = meta.Index
	}
	r.add(figure{name: fmt.Sprintf("One of %d dispatches in a row: the call", n), unit: "ms", samples: took})
	r.add(figure{
		name:    fmt.Sprintf("%d dispatches in a row of an `exec` task that ends at once: all of it", n),
		unit:    "ms",
		samples: []float64{ms(time.Since(begin))},
	})
	_, _, err := a.api.Jobs().Deregister(ctx, "dispatched", api.JobDeregisterOptions{Purge: true}, nil)
	return err
}
