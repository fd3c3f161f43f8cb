package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/lifecycle"
	"berth/internal/base/reconcile"
)

var errBroken = errors.New("plugin does not answer")

// bench runs a loop inside a synctest bubble and records when each pass of each key began.
type bench struct {
	t     *testing.T
	loop  *reconcile.Loop[string]
	start time.Time

	mu     sync.Mutex
	passes map[string][]time.Duration
	now    int // passes under way
	peak   int
	per    map[string]int // passes under way of a key
}

// turn starts a loop whose worker is do, and stops it at the end of the test.
func turn(
	t *testing.T, cfg reconcile.Config, do func(ctx context.Context, key string, pass int) (reconcile.Result, error),
) *bench {
	t.Helper()
	b := &bench{t: t, start: time.Now(), passes: map[string][]time.Duration{}, per: map[string]int{}}
	b.loop = reconcile.New(cfg, func(ctx context.Context, key string) (reconcile.Result, error) {
		pass := b.enter(key)
		defer b.leave(key)
		return do(ctx, key, pass)
	})
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("loop", func() error { return b.loop.Run(ctx) })
	t.Cleanup(func() {
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
	return b
}

func (b *bench) enter(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passes[key] = append(b.passes[key], time.Since(b.start))
	b.now++
	b.per[key]++
	if b.per[key] > 1 {
		b.t.Errorf("two passes of %q at once", key)
	}
	b.peak = max(b.peak, b.now)
	return len(b.passes[key])
}

func (b *bench) leave(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now--
	b.per[key]--
}

func (b *bench) times(key string) []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]time.Duration(nil), b.passes[key]...)
}

func TestADoneKeyIsWorkedOnOnceAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{}, func(context.Context, string, int) (reconcile.Result, error) {
			return reconcile.Done(), nil
		})
		b.loop.Mark("a")
		synctest.Wait()
		time.Sleep(time.Hour)
		if got := b.times("a"); len(got) != 1 || got[0] != 0 {
			t.Errorf("passes at %v, want one at once", got)
		}
		if p := b.loop.Pending(); len(p) != 0 {
			t.Errorf("a done key is pending: %+v", p)
		}
		b.loop.Mark("a")
		synctest.Wait()
		if got := b.times("a"); len(got) != 2 {
			t.Errorf("a new mark of a done key made %d passes in all, want 2", len(got))
		}
	})
}

func TestFailuresPauseLongerAndLongerUpToTheCeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{MinPause: time.Second, MaxPause: 10 * time.Second},
			func(context.Context, string, int) (reconcile.Result, error) { return reconcile.Done(), errBroken })
		b.loop.Mark("a")
		time.Sleep(2 * time.Minute)
		got := b.times("a")
		full := []time.Duration{1, 2, 4, 8, 10, 10, 10, 10}
		if len(got) <= len(full) {
			t.Fatalf("only %d passes in two minutes", len(got))
		}
		for i, want := range full {
			pause, want := got[i+1]-got[i], want*time.Second
			if pause > want || pause < want*4/5 {
				t.Errorf("pause %d took %v, want %v less at most a fifth", i+1, pause, want)
			}
		}
	})
}

func TestThePauseNeverOverflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{}, func(context.Context, string, int) (reconcile.Result, error) {
			return reconcile.Done(), errBroken
		})
		b.loop.Mark("a")
		time.Sleep(3 * time.Hour) // some 190 failures: a shift would long have overflowed
		got := b.times("a")
		for i := 10; i < len(got); i++ {
			if pause := got[i] - got[i-1]; pause < 48*time.Second || pause > time.Minute {
				t.Fatalf("pause %d took %v, want 48s to 60s", i, pause)
			}
		}
		if len(got) < 150 {
			t.Errorf("%d passes in three hours: the loop gave up", len(got))
		}
	})
}

func TestKeysThatFailTogetherDoNotComeBackTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{Parallel: 100}, func(context.Context, string, int) (reconcile.Result, error) {
			return reconcile.Done(), errBroken
		})
		for _, key := range strings.Split("abcdefghijklmnopqrst", "") {
			b.loop.Mark(key)
		}
		time.Sleep(time.Second)
		when := map[time.Duration]bool{}
		for _, key := range strings.Split("abcdefghijklmnopqrst", "") {
			when[b.times(key)[1]] = true
		}
		if len(when) < 10 {
			t.Errorf("20 keys came back at only %d different times", len(when))
		}
	})
}

func TestAMarkCutsThePauseShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{MinPause: time.Hour, MaxPause: time.Hour},
			func(_ context.Context, _ string, pass int) (reconcile.Result, error) {
				if pass == 1 {
					return reconcile.Done(), errBroken
				}
				return reconcile.Done(), nil
			})
		b.loop.Mark("a")
		time.Sleep(time.Minute)
		b.loop.Mark("a")
		synctest.Wait()
		if got := b.times("a"); len(got) != 2 || got[1] != time.Minute {
			t.Errorf("passes at %v, want the second at the mark", got)
		}
	})
}

func TestAMarkDuringAPassMakesOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{}, func(context.Context, string, int) (reconcile.Result, error) {
			time.Sleep(10 * time.Second)
			return reconcile.Done(), nil
		})
		b.loop.Mark("a")
		time.Sleep(time.Second)
		b.loop.Mark("a")
		b.loop.Mark("a")
		b.loop.Mark("a")
		time.Sleep(time.Minute)
		if got := b.times("a"); len(got) != 2 || got[1] != 10*time.Second {
			t.Errorf("passes at %v, want 0s and 10s", got)
		}
	})
}

func TestAWorkerThatMarksItselfAndFailsDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = turn(t, reconcile.Config{MinPause: time.Second},
			func(_ context.Context, key string, _ int) (reconcile.Result, error) {
				b.loop.Mark(key)
				return reconcile.Done(), errBroken
			})
		b.loop.Mark("a")
		time.Sleep(10 * time.Second)
		if got := len(b.times("a")); got < 9 || got > 14 {
			t.Errorf("%d passes in ten seconds, want about one a second", got)
		}
	})
}

func TestAgainIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{}, func(_ context.Context, _ string, pass int) (reconcile.Result, error) {
			switch pass {
			case 1:
				return reconcile.Done(), errBroken
			case 2:
				return reconcile.Again(0, "more to do"), nil
			case 3:
				return reconcile.Again(time.Minute, "the plugin is not ready"), nil
			}
			return reconcile.Done(), nil
		})
		b.loop.Mark("a")
		time.Sleep(time.Second)
		p := b.loop.Pending()
		if len(p) != 1 || p[0].Attempts != 0 || p[0].Err != nil || p[0].Why != "the plugin is not ready" {
			t.Fatalf("pending %+v, want the reason and no failure", p)
		}
		time.Sleep(time.Minute)
		got := b.times("a")
		if len(got) != 4 || got[2] != got[1] || got[3]-got[2] != time.Minute {
			t.Errorf("passes at %v, want the third at once and the fourth a minute later", got)
		}
	})
}

func TestNoMoreKeysAtOnceThanAllowedAndNoneStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{Parallel: 3},
			func(_ context.Context, key string, _ int) (reconcile.Result, error) {
				time.Sleep(time.Second)
				if key == "greedy" {
					return reconcile.Again(0, "never satisfied"), nil
				}
				return reconcile.Done(), nil
			})
		b.loop.Mark("greedy")
		for _, key := range strings.Split("abcdefghi", "") {
			b.loop.Mark(key)
		}
		time.Sleep(4500 * time.Millisecond)
		for _, key := range strings.Split("abcdefghi", "") {
			if len(b.times(key)) != 1 {
				t.Errorf("%q had %d passes, want 1", key, len(b.times(key)))
			}
		}
		if b.peak != 3 {
			t.Errorf("%d passes at once, want 3", b.peak)
		}
	})
}

// Keys of one group whose passes never end hold up none of another.
func TestAGroupThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		done := 0
		loop := reconcile.New(reconcile.Config{Parallel: 2},
			func(ctx context.Context, key string) (reconcile.Result, error) {
				if strings.HasPrefix(key, "hung") {
					<-ctx.Done()
					return reconcile.Done(), nil
				}
				mu.Lock()
				defer mu.Unlock()
				done++
				return reconcile.Done(), nil
			}).GroupBy(func(key string) string { return key[:4] })
		g, ctx := lifecycle.NewGroup(t.Context())
		g.Go("loop", func() error { return loop.Run(ctx) })
		for _, n := range []string{"1", "2", "3", "4"} {
			loop.Mark("hung" + n)
			loop.Mark("well" + n)
		}
		synctest.Wait()
		running := 0
		for _, w := range loop.Pending() {
			if w.Running {
				running++
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if done != 4 || running != 2 {
			t.Errorf("%d of 4 keys are done beside a group that hangs, of which %d run", done, running)
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A group of which somebody says how many passes may be made at once has that many, by what is said when one begins.
func TestAGroupMayHaveMoreOrFewerWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var few atomic.Int64
		few.Store(1)
		next := make(chan struct{})
		loop := reconcile.New(reconcile.Config{Parallel: 3},
			func(ctx context.Context, key string) (reconcile.Result, error) {
				select {
				case <-next:
				case <-ctx.Done():
				}
				return reconcile.Done(), nil
			}).
			GroupBy(func(key string) string { return key[:4] }).
			ParallelBy(func(group string) int {
				return map[string]int{"many": 5, "few ": int(few.Load())}[group]
			})
		g, ctx := lifecycle.NewGroup(t.Context())
		g.Go("loop", func() error { return loop.Run(ctx) })
		for _, n := range []string{"1", "2", "3", "4", "5", "6"} {
			for _, group := range []string{"many", "few ", "rest"} {
				loop.Mark(group + n)
			}
		}
		are := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			running := map[string]int{}
			for _, w := range loop.Pending() {
				if w.Running {
					running[w.Key[:4]]++
				}
			}
			if !maps.Equal(running, want) {
				t.Errorf("%s: %v run, want %v", when, running, want)
			}
		}
		are("at first", map[string]int{"many": 5, "few ": 1, "rest": 3})
		few.Store(2)
		loop.Mark("few 7")
		are("when it may be two", map[string]int{"many": 5, "few ": 2, "rest": 3})
		close(next)
		synctest.Wait()
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestPendingSaysWhatWaitsAndWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{MinPause: time.Minute, MaxPause: time.Minute},
			func(ctx context.Context, key string, _ int) (reconcile.Result, error) {
				if key == "hung" {
					<-ctx.Done()
				}
				return reconcile.Done(), errBroken
			})
		b.loop.Mark("hung")
		b.loop.Mark("bad")
		synctest.Wait()
		p := b.loop.Pending()
		if len(p) != 2 || p[0].Key != "hung" || !p[0].Running {
			t.Fatalf("pending %+v, want the hung key running first", p)
		}
		bad := p[1]
		if bad.Key != "bad" || bad.Attempts != 1 || !errors.Is(bad.Err, errBroken) || bad.Running {
			t.Errorf("bad key is described as %+v", bad)
		}
		if wait := time.Until(bad.NextTry); wait <= 48*time.Second-1 || wait > time.Minute {
			t.Errorf("next try in %v, want 48s to 60s", wait)
		}
	})
}

func TestAPanicIsAFailureOfItsKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := turn(t, reconcile.Config{Name: "stagings", Log: slog.New(slog.NewTextHandler(&log, nil))},
			func(_ context.Context, key string, _ int) (reconcile.Result, error) {
				if key == "bad" {
					panic("impossible volume")
				}
				return reconcile.Done(), nil
			})
		b.loop.Mark("bad")
		b.loop.Mark("good")
		synctest.Wait()
		p := b.loop.Pending()
		var gone *lifecycle.PanicError
		if len(p) != 1 || !errors.As(p[0].Err, &gone) || gone.Value != "impossible volume" {
			t.Fatalf("pending %+v, want the bad key with its panic", p)
		}
		if len(b.times("good")) != 1 {
			t.Error("the good key was not worked on")
		}
		for _, want := range []string{"loop=stagings", "key=bad", "impossible volume", "next_try="} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log.String())
			}
		}
	})
}

// Given a key that fails again and again, then each reason is said once, and once that it is over.
func TestARepeatedFailureIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := turn(t, reconcile.Config{Log: slog.New(slog.NewTextHandler(&log, nil))},
			func(_ context.Context, _ string, pass int) (reconcile.Result, error) {
				switch {
				case pass <= 4:
					return reconcile.Done(), errBroken
				case pass <= 6:
					return reconcile.Done(), errors.New("the volume is gone")
				}
				return reconcile.Done(), nil
			})
		b.loop.Mark("bad")
		time.Sleep(time.Hour)
		synctest.Wait()
		for text, want := range map[string]int{
			`msg="try again"`:         2,
			errBroken.Error():         1,
			"the volume is gone":      1,
			`msg="it succeeds again"`: 1,
			"level=WARN":              2,
			"level=INFO":              1,
		} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%d lines say %q, want %d:\n%s", n, text, want, log.String())
			}
		}
	})
}

func TestForgetDropsAKeyInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{Parallel: 1},
			func(_ context.Context, key string, _ int) (reconcile.Result, error) {
				if key == "long" {
					time.Sleep(10 * time.Second)
				}
				return reconcile.Done(), errBroken
			})
		b.loop.Mark("paused")
		synctest.Wait()
		b.loop.Mark("long")
		synctest.Wait()
		b.loop.Mark("queued")
		for _, key := range []string{"paused", "long", "queued", "unknown"} {
			b.loop.Forget(key)
		}
		if p := b.loop.Pending(); len(p) != 0 {
			t.Errorf("forgotten keys are pending: %+v", p)
		}
		time.Sleep(time.Hour)
		if len(b.times("paused")) != 1 || len(b.times("long")) != 1 || len(b.times("queued")) != 0 {
			t.Errorf("a forgotten key was worked on: %v", b.passes)
		}
	})
}

func TestAKeyMarkedAfterForgetLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{}, func(context.Context, string, int) (reconcile.Result, error) {
			time.Sleep(time.Second)
			return reconcile.Done(), nil
		})
		b.loop.Mark("a")
		synctest.Wait()
		b.loop.Forget("a")
		b.loop.Mark("a")
		time.Sleep(5 * time.Second)
		if got := b.times("a"); len(got) != 2 {
			t.Errorf("%d passes, want 2", len(got))
		}
	})
}

func TestIdleWaitsForWorkButNotForPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := turn(t, reconcile.Config{Parallel: 1},
			func(_ context.Context, key string, _ int) (reconcile.Result, error) {
				time.Sleep(time.Second)
				return reconcile.Again(time.Hour, "waits"), nil
			})
		b.loop.Mark("a")
		b.loop.Mark("b")
		if err := b.loop.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(b.start); took != 2*time.Second {
			t.Errorf("idle after %v, want 2s", took)
		}
		b.loop.Mark("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.loop.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("idle with work under way returned %v, want a deadline error", err)
		}
	})
}

func TestRunJoinsItsPassesAndASecondRunTakesUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun, ended := 0, 0
		loop := reconcile.New(reconcile.Config{}, func(ctx context.Context, _ string) (reconcile.Result, error) {
			mu.Lock()
			begun++
			first := begun == 1
			mu.Unlock()
			defer func() { mu.Lock(); ended++; mu.Unlock() }()
			if first {
				<-ctx.Done()
				time.Sleep(3 * time.Second) // a call that takes its time to give up
				return reconcile.Done(), ctx.Err()
			}
			return reconcile.Done(), nil
		})
		loop.Mark("a") // before Run: kept
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := loop.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 4*time.Second || ended != 1 {
			t.Errorf("Run returned after %v with %d passes ended, want 4s and 1", took, ended)
		}
		p := loop.Pending()
		if len(p) != 1 || p[0].Attempts != 0 {
			t.Fatalf("pending %+v: an interrupted pass is neither done nor failed", p)
		}

		g, gctx := lifecycle.NewGroup(t.Context())
		g.Go("loop", func() error { return loop.Run(gctx) })
		synctest.Wait()
		if begun != 2 || len(loop.Pending()) != 0 {
			t.Errorf("the second Run did not take up the key: begun %d, pending %+v", begun, loop.Pending())
		}
		if err := loop.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs already") {
			t.Errorf("a second Run at once returned %v", err)
		}
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestManyMarksFromManySides(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	loop := reconcile.New(reconcile.Config{Parallel: 8}, func(_ context.Context, key int) (reconcile.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[key]++
		return reconcile.Done(), nil
	})
	g, ctx := lifecycle.NewGroup(t.Context())
	g.Go("loop", func() error { return loop.Run(ctx) })
	marks, _ := lifecycle.NewGroup(t.Context())
	for side := range 8 {
		marks.Go("marker", func() error {
			for i := range 500 {
				loop.Mark((side*100 + i) % 1000)
				loop.Pending()
			}
			return nil
		})
	}
	if err := marks.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := loop.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1000 || len(loop.Pending()) != 0 {
		t.Errorf("%d keys seen, %d pending, want 1000 and 0", len(seen), len(loop.Pending()))
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
