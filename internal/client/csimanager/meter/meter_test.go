package meter_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/lifecycle"
	"berth/internal/client/csimanager"
	"berth/internal/client/csimanager/meter"
	"berth/internal/model/volume"
	"berth/internal/port/csi"
)

// bench is a meter in a bubble of time, with a keeper of volumes and tasks as the test says.
type bench struct {
	*meter.Meter
	start time.Time

	mu      sync.Mutex
	volumes map[volume.StagingKey]csimanager.PublishedVolume
	answer  func(ctx context.Context, key volume.StagingKey) (csi.Stats, error)
	asked   map[volume.StagingKey][]time.Duration
	now     map[ids.Plugin]int // questions under way
	most    map[ids.Plugin]int
	heard   []string
	dead    map[volume.StagingKey]string
}

func (b *bench) Dead() (map[volume.StagingKey]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.dead), nil
}

func (b *bench) Published() (out []csimanager.PublishedVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.volumes {
		out = append(out, v)
	}
	return out
}

func (b *bench) Measure(ctx context.Context, key volume.StagingKey) (csi.Stats, error) {
	b.mu.Lock()
	b.asked[key] = append(b.asked[key], time.Since(b.start))
	b.now[key.Plugin]++
	b.most[key.Plugin] = max(b.most[key.Plugin], b.now[key.Plugin])
	answer := b.answer
	b.mu.Unlock()
	out, err := answer(ctx, key)
	b.mu.Lock()
	b.now[key.Plugin]--
	b.mu.Unlock()
	return out, err
}

func (b *bench) VolumeCondition(id ids.Alloc, alias string, c volume.Condition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, fmt.Sprintf("%s %s %v %s", id, alias, c.Abnormal, c.Message))
}

func (b *bench) set(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fn()
}

func (b *bench) news() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.heard
	b.heard = nil
	return out
}

func keyOf(plugin, id string) volume.StagingKey {
	return volume.StagingKey{Plugin: ids.Plugin(plugin), ExternalID: id}
}

func (b *bench) publish(key volume.StagingKey, users ...ids.Alloc) {
	v := csimanager.PublishedVolume{Key: key, Users: map[ids.Alloc]string{}}
	v.Volume = volume.ID{Namespace: "n", ID: ids.Volume(key.ExternalID)}
	for _, u := range users {
		v.Users[u] = "data"
	}
	b.set(func() { b.volumes[key] = v })
}

// full is a volume of which a quarter is used.
func full(context.Context, volume.StagingKey) (csi.Stats, error) {
	return csi.Stats{Bytes: &csi.Usage{Total: 100, Used: 25, Available: 70}}, nil
}

// metering runs a story with a meter that asks once a minute.
func metering(t *testing.T, story func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			start:   time.Now(),
			volumes: map[volume.StagingKey]csimanager.PublishedVolume{},
			answer:  full,
			asked:   map[volume.StagingKey][]time.Duration{},
			now:     map[ids.Plugin]int{},
			most:    map[ids.Plugin]int{},
		}
		b.Meter = meter.New(meter.Config{
			Volumes: b,
			Tasks:   b,
			Dead:    b.Dead,
			AtOnce:  func(id ids.Plugin) int { return map[ids.Plugin]int{"one": 1, "many": 50}[id] },
			Log:     slog.New(slog.DiscardHandler),
		})
		g, ctx := lifecycle.NewGroup(t.Context())
		g.Go("meter", func() error { return b.Run(ctx) })
		story(t, b)
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAVolumeInUseIsMeasuredAboutOnceAMinute: and one that is not in use any more is neither asked about nor shown.
func TestAVolumeInUseIsMeasuredAboutOnceAMinute(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		key := keyOf("p", "v")
		b.publish(key, "a")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		r, known := b.Of(key)
		want := volume.Amount{Total: 100, Used: 25, Available: 70}
		if !known || r.Bytes == nil || *r.Bytes != want || r.At.IsZero() {
			t.Fatalf("after a quarter of the period it is known: %v, %+v", known, r)
		}
		if r.Condition != nil || r.Inodes != nil || r.Error != "" {
			t.Errorf("more is shown than the plugin said: %+v", r.Measured)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var asked []time.Duration
		b.set(func() { asked = slices.Clone(b.asked[key]) })
		if n := len(asked); n < 10 || n > 14 {
			t.Errorf("it was asked about %d times in ten minutes: %v", n, asked)
		}
		for i := 1; i < len(asked); i++ {
			if pause := asked[i] - asked[i-1]; pause < 48*time.Second || pause > time.Minute {
				t.Errorf("asked again after %v", pause)
			}
		}
		b.set(func() { b.volumes = nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		before := len(b.asked[key])
		time.Sleep(time.Hour)
		synctest.Wait()
		if after := len(b.asked[key]); after != before || len(b.All()) != 0 {
			t.Errorf("not in use any more, it was asked about %d times and is shown as %+v", after-before, b.All())
		}
	})
}

// TestAPluginThatHangsHoldsUpNoOther: it has workers of its own, and is asked less and less often.
func TestAPluginThatHangsHoldsUpNoOther(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		b.answer = func(ctx context.Context, key volume.StagingKey) (csi.Stats, error) {
			if key.Plugin == "hung" {
				<-ctx.Done()
				return csi.Stats{}, fault.Wrap(ctx.Err(), fault.Timeout, "", "")
			}
			return full(ctx, key)
		}
		for i := range 20 {
			b.publish(keyOf("hung", fmt.Sprint(i)), "a")
			b.publish(keyOf("well", fmt.Sprint(i)), "a")
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		for i := range 20 {
			if r, _ := b.Of(keyOf("well", fmt.Sprint(i))); r.At.IsZero() {
				t.Errorf("volume %d of another plugin is not measured beside one that hangs", i)
			}
		}
		time.Sleep(12 * time.Hour)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.most["hung"] > 4 {
			t.Errorf("%d questions at once hung in the plugin", b.most["hung"])
		}
		asked := b.asked[keyOf("hung", "0")]
		if n := len(asked); n < 40 || n > 70 {
			t.Errorf("in twelve hours it was asked %d times about one volume", n)
		}
		if last := asked[len(asked)-1] - asked[len(asked)-2]; last < 12*time.Minute {
			t.Errorf("after many failures it was asked again after %v", last)
		}
	})
}

// TestAPluginIsAskedNoMoreThanItTakes: four questions at once, or fewer where its job says fewer.
func TestAPluginIsAskedNoMoreThanItTakes(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		b.answer = func(ctx context.Context, key volume.StagingKey) (csi.Stats, error) {
			time.Sleep(10 * time.Millisecond)
			return full(ctx, key)
		}
		want := map[ids.Plugin]int{"one": 1, "many": 4, "silent": 4}
		for id := range want {
			for i := range 20 {
				b.publish(keyOf(string(id), fmt.Sprint(i)), "a")
			}
		}
		time.Sleep(5 * time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		if !maps.Equal(b.most, want) {
			t.Errorf("so many questions at once: %v, want %v", b.most, want)
		}
	})
}

// TestWhatCannotBeMeasuredKeepsItsLastReading: with the reason, and its age tells how old it is.
func TestWhatCannotBeMeasuredKeepsItsLastReading(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		key := keyOf("p", "v")
		b.publish(key, "a")
		time.Sleep(20 * time.Second)
		first, _ := b.Of(key)
		failing := func(kind fault.Kind) {
			b.set(func() {
				b.answer = func(context.Context, volume.StagingKey) (csi.Stats, error) {
					return csi.Stats{}, fault.New(kind, "measure", "it", "no answer")
				}
			})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		failing(fault.NotReady)
		if r, _ := b.Of(key); !r.At.Equal(first.At) || r.Bytes == nil || !strings.Contains(r.Error, "no answer") {
			t.Errorf("without an answer it is shown as %+v", r.Measured)
		}
		b.set(func() { b.answer = full })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if r, _ := b.Of(key); r.Error != "" || !r.At.After(first.At) {
			t.Errorf("measured again it is shown as %+v", r.Measured)
		}
		failing(fault.Unsupported)
		if r, known := b.Of(key); !known || r.Bytes != nil || !r.At.IsZero() {
			t.Errorf("a plugin that does not measure left %+v", r.Measured)
		}
	})
}

// TestWhoGaveWayTriesAgainSoon: a call with the right of way is no failure of the measuring.
func TestWhoGaveWayTriesAgainSoon(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		key := keyOf("p", "v")
		b.answer = func(context.Context, volume.StagingKey) (csi.Stats, error) {
			return csi.Stats{}, fault.New(fault.Busy, "measure", "it", "another call is under way")
		}
		b.publish(key, "a")
		time.Sleep(30 * time.Second)
		b.set(func() { b.answer = full })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if r, _ := b.Of(key); r.At.IsZero() || r.Error != "" {
			t.Errorf("seconds after the other call it is %+v", r.Measured)
		}
	})
}

// TestAChangedConditionIsNewsOnce: to each alloc that uses the volume, and not at every measuring.
func TestAChangedConditionIsNewsOnce(t *testing.T) {
	metering(t, func(t *testing.T, b *bench) {
		key, n := keyOf("p", "v"), 0
		says := func(abnormal bool) {
			b.set(func() {
				b.answer = func(context.Context, volume.StagingKey) (csi.Stats, error) {
					n++
					message := fmt.Sprintf("checked %d times", n)
					return csi.Stats{Condition: &csi.Condition{Abnormal: abnormal, Message: message}}, nil
				}
			})
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		is := func(when string, want ...string) {
			t.Helper()
			got := b.news()
			slices.Sort(got)
			if !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("%s the tasks hear %q, want %q", when, got, want)
			}
		}
		b.publish(key, "a", "b")
		says(true)
		is("abnormal,", "a data true checked", "b data true checked")
		b.publish(key, "a", "b", "c")
		says(true)
		is("with one more user", "c data true checked")
		says(false)
		is("normal again,", "a data false", "b data false", "c data false")
		if r, _ := b.Of(key); r.Condition == nil || r.Condition.Abnormal || r.Condition.Message == "" {
			t.Errorf("it is shown as %+v", r.Condition)
		}
		b.publish(key, "a")
		says(false)
		is("unchanged")
		b.publish(key, "a", "b")
		says(false)
		is("with a user that came back", "b data false")
	})
}

// TestAVolumeWithADeadFileSystemIsAbnormal: whatever its plugin says, and though it offers to say nothing; its users
// hear of it within a quarter of a minute, and that it is well again not before the plugin was asked.
func TestAVolumeWithADeadFileSystemIsAbnormal(t *testing.T) {
	unsupported := func(context.Context, volume.StagingKey) (csi.Stats, error) {
		return csi.Stats{}, fault.New(fault.Unsupported, "measure", "a volume", "the plugin does not offer it")
	}
	well := func(context.Context, volume.StagingKey) (csi.Stats, error) {
		return csi.Stats{Condition: &csi.Condition{Message: "all disks are well"}}, nil
	}
	failing := func(context.Context, volume.StagingKey) (csi.Stats, error) {
		return csi.Stats{}, fault.New(fault.Internal, "measure", "a volume", "input/output error")
	}
	for name, c := range map[string]struct {
		answer func(context.Context, volume.StagingKey) (csi.Stats, error)
		before string // what it is when the mount table shows nothing
		asked  bool   // the plugin answers, so that it is known when all is well
	}{
		"says nothing of it":   {full, "<nil>", true},
		"measures nothing":     {unsupported, "<nil>", true},
		"calls it well":        {well, "&{false all disks are well false}", true},
		"fails from the first": {failing, "<nil>", false},
	} {
		t.Run(name, func(t *testing.T) {
			metering(t, func(t *testing.T, b *bench) {
				key := keyOf("p", "v")
				b.set(func() { b.answer = c.answer })
				b.publish(key, "a")
				is := func(when, want string) {
					t.Helper()
					r, _ := b.Of(key)
					got := "<nil>"
					if r.Condition != nil {
						got = fmt.Sprint(r.Condition)
					}
					if got != want {
						t.Errorf("%s it is %s, want %s", when, got, want)
					}
				}
				time.Sleep(2 * time.Minute)
				is("before,", c.before)
				b.news()
				b.set(func() { b.dead = map[volume.StagingKey]string{key: "it has become read-only"} })
				time.Sleep(20 * time.Second)
				is("dead,", "&{true it has become read-only true}")
				if got := b.news(); !slices.Equal(got, []string{"a data true it has become read-only"}) {
					t.Errorf("its user hears %q", got)
				}
				if all := b.All(); len(all) != 1 || all[0].Condition == nil || !all[0].Condition.Abnormal {
					t.Errorf("in the list it is %+v", all)
				}
				b.set(func() { b.dead = nil })
				time.Sleep(2 * time.Minute)
				is("mounted anew,", c.before)
				if heard := strings.Join(b.news(), "; "); strings.HasPrefix(heard, "a data false") != c.asked {
					t.Errorf("its user hears %q", heard)
				}
			})
		})
	}
}
