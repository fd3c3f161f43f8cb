package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/api"
)

// listed starts many jobs, of a task each, and lists them all the while: what people look at must answer when there is
// most to look at.
func listed(jobs int) func(context.Context, *report, string) error {
	return func(ctx context.Context, r *report, binary string) (err error) {
		a, err := start(binary)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.stop()) }()
		if err := until(ctx, "node ready", func() error { return a.nodeReady(ctx) }); err != nil {
			return err
		}
		var took []float64
		running := 0
		list := func() error {
			begin := time.Now()
			found, _, err := a.api.Jobs().List(ctx, nil)
			took = append(took, ms(time.Since(begin)))
			running = 0
			for _, j := range found {
				if j.JobSummary != nil {
					running += j.JobSummary.Summary["g"].Running
				}
			}
			return err
		}
		for i := range jobs {
			job := sleeper(fmt.Sprintf("job-%03d", i), 1, isolated(""))
			if _, _, err := a.api.Jobs().Register(ctx, &api.JobRegisterRequest{Job: job}, nil); err != nil {
				return err
			}
			if err := list(); err != nil {
				return err
			}
		}
		for deadline := time.Now().Add(2 * time.Minute); running < jobs; {
			if time.Now().After(deadline) {
				return fmt.Errorf("%d of %d jobs run after two minutes", running, jobs)
			}
			if err := list(); err != nil {
				return err
			}
		}
		r.add(figure{
			name:    fmt.Sprintf("List of %d jobs while their tasks start", jobs),
			unit:    "ms",
			samples: took,
			bar:     bar{text: "– / 200 ms (8,300 here once)", high: 200},
		})
		return nil
	}
}
