package shimproto

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

const goldenFile = "testdata/messages.txt"

// shapes are the ways in which a message's fields can be filled in. Each is called with every leaf below a message, and
// the leaf's number.
var shapes = []struct {
	name string
	fill func(v reflect.Value, n int)
}{
	{"zero", nil},
	{"full", fillLeaf},
	{"negative", func(v reflect.Value, n int) {
		fillLeaf(v, n)
		if v.CanInt() {
			v.SetInt(int64(-n))
		}
	}},
	{"extreme", func(v reflect.Value, n int) {
		switch {
		case v.CanInt():
			v.SetInt(math.MinInt64)
		case v.CanUint():
			v.SetUint(math.MaxUint64 >> (64 - v.Type().Bits()))
		default:
			fillLeaf(v, n)
		}
	}},
	{"empty elements", func(reflect.Value, int) {}}, // lists and pointers are there, and hold zero values
}

// shaped makes a message of m's type, filled in as the shape says; without a fill it is the zero message.
func shaped(m Message, fill func(v reflect.Value, n int)) Message {
	made := reflect.New(reflect.TypeOf(m).Elem())
	if fill != nil {
		n := 0
		walk(made.Elem(), &n, fill)
	}
	return made.Interface().(Message)
}

// walk visits every leaf below v, in order; lists get two elements, and pointers something to point to.
func walk(v reflect.Value, n *int, leaf func(v reflect.Value, n int)) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		walk(v.Elem(), n, leaf)
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), n, leaf)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			walk(v.Index(i), n, leaf)
		}
	default:
		leaf(v, *n)
	}
}

// fillLeaf sets v to a value that is not zero and differs from its neighbours'.
func fillLeaf(v reflect.Value, n int) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(strings.Repeat("x", n%7+1))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanUint():
		v.SetUint(uint64(n))
	default:
		v.SetInt(int64(n))
	}
}

// Shims of an earlier version run on while the agent is upgraded: what is on the wire may not change. A new field or
// message adds to the file; a line that changes is a mistake.
func TestTheBytesOfEveryMessageAreGolden(t *testing.T) {
	var got strings.Builder
	got.WriteString(
		"# The bytes of every message, as golden_test.go fills it in. Old shims speak so: lines are added, never " +
			"changed.\n")
	for _, m := range messages() {
		for _, shape := range shapes {
			name := fmt.Sprintf("%s, %s", reflect.TypeOf(m).Elem().Name(), shape.name)
			sent := shaped(m, shape.fill)
			encoded := Marshal(sent)
			fmt.Fprintf(&got, "%s: %s\n", name, hex.EncodeToString(encoded))
			received := shaped(m, nil)
			if err := Unmarshal(encoded, received); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if again := Marshal(received); !bytes.Equal(again, encoded) {
				t.Errorf("%s is encoded as %x and, when it was decoded, as %x", name, encoded, again)
			}
		}
	}
	if *update {
		if err := os.WriteFile(goldenFile, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", goldenFile, diff)
	}
}

// A field that this version does not know is passed over wherever it stands.
func TestFieldsOfALaterProtocolAreSkippedInEveryMessage(t *testing.T) {
	later := new(codec)
	later.add(900, []byte("later"))
	for _, m := range messages() {
		want := shaped(m, fillLeaf)
		for at, encoded := 0, Marshal(want); ; at += fieldSize(t, encoded[at:]) {
			got := shaped(m, nil)
			if err := Unmarshal(slices.Concat(encoded[:at], later.out, encoded[at:]), got); err != nil {
				t.Errorf("%T with an unknown field at byte %d: %v", m, at, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%T with an unknown field at byte %d:\n%s", m, at, diff)
			}
			if at == len(encoded) {
				break
			}
		}
	}
}

// fieldSize is how long the first field of an encoded message is, with its number and its length.
func fieldSize(t *testing.T, encoded []byte) int {
	t.Helper()
	_, n := binary.Uvarint(encoded)
	size, k := binary.Uvarint(encoded[n:])
	if n <= 0 || k <= 0 || int(size) > len(encoded) {
		t.Fatalf("no field begins at %x", encoded)
	}
	return n + k + int(size)
}
