package fsm_test

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"berth/internal/base/fault"
	"berth/internal/server/fsm"
	_ "berth/internal/server/fsm/acls"
	_ "berth/internal/server/fsm/adoption"
	_ "berth/internal/server/fsm/autopilot"
	_ "berth/internal/server/fsm/collection"
	_ "berth/internal/server/fsm/consultokens"
	_ "berth/internal/server/fsm/departure"
	_ "berth/internal/server/fsm/deployments"
	_ "berth/internal/server/fsm/driveroptions"
	"berth/internal/server/fsm/entry"
	_ "berth/internal/server/fsm/joining"
	_ "berth/internal/server/fsm/keys"
	_ "berth/internal/server/fsm/launches"
	_ "berth/internal/server/fsm/partitioning"
	_ "berth/internal/server/fsm/recovery"
	_ "berth/internal/server/fsm/replacement"
	_ "berth/internal/server/fsm/reports"
	_ "berth/internal/server/fsm/scaling"
	_ "berth/internal/server/fsm/sessions"
	_ "berth/internal/server/fsm/shortages"
	_ "berth/internal/server/fsm/tagging"
	_ "berth/internal/server/fsm/variables"
	"berth/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// open are the types of maps that are being filled: one of maps like itself ends there.
var open = map[reflect.Type]bool{}

// fill sets every field it can reach to something that is not zero, always the same.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, *n, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{1, 2, 3})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.Map:
		if open[v.Type()] {
			return
		}
		open[v.Type()] = true
		defer delete(open, v.Type())
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(val, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, val)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(1 + *n%99))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(1 + *n%99))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Interface:
		v.Set(reflect.ValueOf("any"))
	}
}

func sample(k fsm.Kind) fsm.Command {
	cmd := k.New()
	n := 0
	fill(reflect.ValueOf(cmd).Elem(), &n)
	return cmd
}

var proposed = time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC)

func TestEveryCommandSurvivesItsEncoding(t *testing.T) {
	if len(fsm.Kinds()) < 10 {
		t.Fatalf("only %d commands are registered", len(fsm.Kinds()))
	}
	for _, k := range fsm.Kinds() {
		cmd := sample(k)
		data, err := fsm.Encode(cmd, proposed)
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		back, at, err := fsm.Decode(data)
		if err != nil || !at.Equal(proposed) {
			t.Errorf("%s: %v at %s", k.Name, err, at)
			continue
		}
		if !reflect.DeepEqual(cmd, back) {
			t.Errorf("%s changes on its way through the log:\n%+v\n%+v", k.Name, cmd, back)
		}
	}
}

func TestEveryCommandHasAnOwnerThatExists(t *testing.T) {
	for _, k := range fsm.Kinds() {
		if !strings.HasPrefix(k.Owner, "server") || k.Schema == 0 {
			t.Errorf("%s: owner %q, schema %d", k.Name, k.Owner, k.Schema)
		}
	}
}

func TestTheEncodedFormOfCommandsStays(t *testing.T) {
	dir := filepath.Join("testdata", "commands")
	known := map[string]bool{}
	for _, k := range fsm.Kinds() {
		data, err := fsm.Encode(sample(k), proposed)
		if err != nil {
			t.Fatal(err)
		}
		var e entry.Entry
		if err := wire.DecodeStrict(data, &e); err != nil {
			t.Fatal(err)
		}
		text, err := cbor.Diagnose(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		got := []byte(fmt.Sprintf("%s schema %d\n%s\nsha256 %x\n", k.Name, k.Schema, text, sha256.Sum256(data)))
		file := filepath.Join(dir, k.Name+".txt")
		known[k.Name+".txt"] = true
		if *update {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("the encoded form of %s is not the one in %s (%v): a log written before can't be read any more "+
				"the same way; "+
				"raise the schema, or run go test ./internal/server/fsm -update if no release has it\n%s", k.Name, file,
				err, got)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s/%s belongs to no command: old logs can't be read any more", dir, f.Name())
		}
	}
}

func TestAnEntryFromANewerBerthStopsTheMachine(t *testing.T) {
	data, err := wire.Encode(entry.Entry{Name: "from-the-future", Schema: 1, Time: 1, Payload: []byte{0xa0}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := fsm.Decode(data); !fault.Has(err, fault.Unsupported) {
		t.Errorf("an unknown command: %v", err)
	}
	payload, err := wire.Encode(map[string]any{"Name": "x", "Surprise": true})
	if err != nil {
		t.Fatal(err)
	}
	if data, err = wire.Encode(entry.Entry{Name: "secret-put", Schema: 1, Time: 1, Payload: payload}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fsm.Decode(data); !fault.Has(err, fault.Unsupported) {
		t.Errorf("an unknown field: %v", err)
	}
}
