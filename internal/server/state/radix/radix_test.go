package radix

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// keys are short and of few letters, so that they begin alike, and one is the beginning of another.
var keys = rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00")), 0, 5, -1)

// model is what a tree is held against.
type model map[string]int

func (m model) keys(holds func(string) bool) (out []int) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if holds(k) {
			out = append(out, m[k])
		}
	}
	return out
}

// seen is what a tree had, a reader of it saw, and watches.
type seen struct {
	tree    Tree
	is      model
	watches []watched
}

type watched struct {
	what  string
	reads func(model) string
	ch    <-chan struct{}
}

func (w watched) closed() bool {
	select {
	case <-w.ch:
		return true
	default:
		return false
	}
}

// look holds a tree against what it should have.
func (s *seen) look(r *rapid.T) {
	prefix, key := keys.Draw(r, "prefix"), keys.Draw(r, "key")
	var got, from []int
	for o := range Below[int](s.tree, prefix) {
		got = append(got, *o)
	}
	if want := s.is.keys(func(k string) bool { return strings.HasPrefix(k, prefix) }); !slices.Equal(got, want) {
		r.Fatalf("below %q there are %v, want %v", prefix, got, want)
	}
	for o := range From[int](s.tree, key) {
		if from = append(from, *o); len(from) == 3 {
			break
		}
	}
	want := s.is.keys(func(k string) bool { return k >= key })
	if want = want[:min(3, len(want))]; !slices.Equal(from, want) {
		r.Fatalf("from %q on there are %v, want %v", key, from, want)
	}
	n, there := s.is[key]
	if o, _ := s.tree.Get(key).(*int); (o != nil) != there || there && *o != n {
		r.Fatalf("%q is %v, want %v (%v)", key, o, n, there)
	}
	s.watches = append(s.watches,
		watched{"key " + key, func(m model) string { return fmt.Sprint(m[key]) }, s.tree.Watch(key)},
		watched{"prefix " + prefix, func(m model) string {
			return fmt.Sprint(m.keys(func(k string) bool { return strings.HasPrefix(k, prefix) }))
		}, s.tree.WatchPrefix(prefix)})
}

// TestATreeIsAMapInOrder: whatever is put and deleted, shown in between and read later, a tree has what a map has, each
// earlier tree has what it had, whoever watches what has changed hears of it, and nobody before it can be seen.
func TestATreeIsAMapInOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := &seen{tree: New(), is: model{}}
		var earlier []*seen
		for number := 1; number < 40; {
			now.look(r)
			x, is := now.tree.Txn(), maps.Clone(now.is)
			for range rapid.IntRange(0, 6).Draw(r, "writes") {
				number++
				key := keys.Draw(r, "written")
				switch rapid.SampledFrom([]string{"put", "put", "delete", "read", "show"}).Draw(r, "deed") {
				case "put":
					first := rapid.IntRange(0, len(key)).Draw(r, "first part")
					x.PutUnder(key[:first], key[first:], new(number))
					is[key] = number
				case "delete":
					if _, there := is[key]; x.Delete(key) != there {
						r.Fatalf("%q was there: %v", key, there)
					}
					delete(is, key)
				case "read": // what is written while it is read does not disturb it
					var got []int
					for o := range BelowNow[int](x, key) {
						got = append(got, *o)
						number++
						x.Put(key+"b", new(number))
					}
					want := is.keys(func(k string) bool { return strings.HasPrefix(k, key) })
					if !slices.Equal(got, want) {
						r.Fatalf("below %q there are %v, want %v", key, got, want)
					}
					if len(got) > 0 {
						is[key+"b"] = number
					}
				case "show":
					earlier = append(earlier, &seen{tree: x.Tree(), is: maps.Clone(is)})
				}
			}
			for _, w := range now.watches {
				if w.closed() {
					r.Fatalf("%s: it is heard of before it can be seen", w.what)
				}
			}
			next := &seen{tree: x.Tree(), is: is}
			x.Notify()
			for _, w := range now.watches {
				if w.reads(now.is) != w.reads(is) && !w.closed() {
					r.Fatalf("%s has changed, and who watches it does not hear", w.what)
				}
			}
			earlier = append(earlier, now)
			now = next
			number++
		}
		for _, s := range earlier {
			s.watches = nil
			s.look(r)
		}
	})
}

// TestAChangeElsewhereWakesNobody: who watches a key or a prefix is not woken by what is written beside it.
func TestAChangeElsewhereWakesNobody(t *testing.T) {
	x := New().Txn()
	for _, k := range []string{"a/1", "a/2", "b/1", "b/2"} {
		x.Put(k, k)
	}
	before := x.Tree()
	key, prefix := before.Watch("a/1"), before.WatchPrefix("a/")
	y := before.Txn()
	y.Put("b/1", "another")
	y.Delete("b/2")
	y.Notify()
	for name, ch := range map[string]<-chan struct{}{"key": key, "prefix": prefix} {
		select {
		case <-ch:
			t.Errorf("%s: it is woken", name)
		default:
		}
	}
}

// TestWhoWatchesLateHearsAtOnce: an old tree that is watched after the change was committed is over at once, and so for
// all who ask at the same time.
func TestWhoWatchesLateHearsAtOnce(t *testing.T) {
	x := New().Txn()
	x.Put("a", 1)
	before := x.Tree()
	y := before.Txn()
	y.Put("a", 2)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { <-before.Watch("a") })
	}
	y.Notify()
	wg.Wait()
	<-before.Watch("a")
	<-before.WatchPrefix("a")
}

// TestWhoHearsOfAForestFindsWhatIsNew: whoever is woken by a commit reads what it made, not what was there before.
func TestWhoHearsOfAForestFindsWhatIsNew(t *testing.T) {
	x := NewForest(2).Txn()
	x.Write(1).Put("a", new(1))
	heard := x.from[1].Watch("a")
	x.Commit(func(f Forest) {
		select {
		case <-heard:
			t.Error("it is heard of before it can be seen")
		default:
		}
		if got, _ := f[1].Get("a").(*int); got == nil || x.from[1].Get("a") != nil {
			t.Errorf("to be seen is %v", got)
		}
	})
	select {
	case <-heard:
	default:
		t.Error("nobody hears of it")
	}
}

// TestManyAreReadAsTheyWere: as many as are not handed over at once are all there for who reads them, and are not
// disturbed by what is written meanwhile.
func TestManyAreReadAsTheyWere(t *testing.T) {
	for _, n := range []int{atOnce, atOnce + 1, 3 * atOnce} {
		x := New().Txn()
		for i := range n {
			x.Put(fmt.Sprintf("a/%03d", i), new(i))
		}
		read := 0
		for o := range BelowNow[int](x, "a/") {
			if *o != read {
				t.Fatalf("of %d, number %d is read as %d", n, read, *o)
			}
			read++
			x.Put(fmt.Sprintf("a/%03d", *o+1), new(-1))
			x.Delete(fmt.Sprintf("a/%03d", *o+2))
		}
		if read != n {
			t.Errorf("of %d, %d are read", n, read)
		}
	}
}
