package nodemeta

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"berth/internal/base/fault"
)

// memory is a store that may fail.
type memory struct {
	said map[string]*string
	full bool
}

// NodeMeta implements Store.
func (m *memory) NodeMeta() (map[string]*string, error) { return m.said, nil }

// PutNodeMeta implements Store.
func (m *memory) PutNodeMeta(all map[string]*string) error {
	if m.full {
		return errors.New("no space left on device")
	}
	m.said = all
	return nil
}

func open(t *testing.T, static map[string]string, store Store) *Meta {
	t.Helper()
	m, err := Open("n", static, store)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func words(pairs ...string) map[string]*string {
	out := map[string]*string{}
	for _, p := range pairs {
		key, value, set := strings.Cut(p, "=")
		if out[key] = nil; set {
			out[key] = &value
		}
	}
	return out
}

// Given a node with configured metadata, when keys are set and taken away at run time, then that lies over the
// configuration, is there after a restart, and follows a configuration that has changed since.
func TestWhatIsSaidAtRunTimeLiesOverTheConfiguration(t *testing.T) {
	store := &memory{}
	m := open(t, map[string]string{"rack": "r1", "old": "1"}, store)
	for _, step := range []struct {
		say  []string
		want string
	}{
		{[]string{"rack=r7", "zone="}, "map[old:1 rack:r7 zone:]"},
		{[]string{"old", "zone"}, "map[rack:r7]"},
		{[]string{"nobody has this"}, "map[rack:r7]"}, // whatever it is called, it may go
		{[]string{"rack"}, "map[]"},
	} {
		changed := m.Changed()
		out, err := m.Apply(words(step.say...))
		if err != nil || fmt.Sprint(out.Meta) != step.want || fmt.Sprint(m.Merged()) != step.want {
			t.Errorf("%v: %v, %v, want %s", step.say, out, err, step.want)
		}
		select {
		case <-changed:
		default:
			t.Errorf("%v: nobody hears of it", step.say)
		}
	}
	if out := m.Show(); len(out.Dynamic.Map()) != 2 || out.Dynamic.Map()["old"] != nil || out.Static["rack"] != "r1" {
		t.Errorf("what hides the configuration's: %v", out)
	}
	again := open(t, map[string]string{"rack": "r2", "new": "1"}, store)
	if out := again.Show(); fmt.Sprint(out.Meta) != "map[new:1]" || len(out.Dynamic.Map()) != 1 {
		t.Errorf("after a restart: %v", out)
	}
}

// Given a change that is refused, or cannot be written, then nothing has changed, and the error says what is wrong.
func TestABadChangeOfMetadataChangesNothing(t *testing.T) {
	store := &memory{}
	m := open(t, nil, store)
	if _, err := m.Apply(words("a=1")); err != nil {
		t.Fatal(err)
	}
	many, long := words(), words()
	for i := range maxKeys {
		many[fmt.Sprintf("k%d", i)] = new("")
	}
	for i := range maxAll/maxValue + 1 {
		long[fmt.Sprintf("k%d", i)] = new(strings.Repeat("v", maxValue))
	}
	one := func(key, value string) map[string]*string { return map[string]*string{key: &value} }
	for what, c := range map[string]struct {
		values map[string]*string
		says   string
	}{
		"nothing":       {nil, "no key is named"},
		"no name":       {one("", "v"), "has 0 bytes"},
		"a long name":   {one(strings.Repeat("k", maxKey+1), "v"), "has 129 bytes"},
		"a wrong name":  {one("a b", "v"), "letters, digits"},
		"a brace":       {one("a}", "v"), "letters, digits"},
		"a long value":  {one("b", strings.Repeat("v", maxValue+1)), "has 4097 bytes"},
		"no text":       {one("b", "\xff"), "control characters"},
		"a line":        {one("b", "x\ny"), "control characters"},
		"too many":      {many, "257 keys"},
		"too much":      {long, "at most"},
		"one of two":    {words("b=2", "c d=3"), "letters, digits"},
		"a zero within": {one("b\x00", "v"), "letters, digits"},
	} {
		_, err := m.Apply(c.values)
		if !fault.Has(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), `node "n"`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	store.full = true
	if _, err := m.Apply(words("b=2")); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("a full disk: %v", err)
	}
	if want := map[string]string{"a": "1"}; !maps.Equal(m.Merged(), want) || len(store.said) != 1 {
		t.Errorf("it has changed: %v, %v", m.Merged(), store.said)
	}
}
