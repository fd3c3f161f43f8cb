package pluginproto_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

var update = flag.Bool("update", false, "write the numbers anew")

// Given the messages and services that plugins of others were built with, when ours are listed, then every name that
// goes over the wire, every number and every type is as it was: a change of one is a plugin that misunderstands.
func TestNoNumberOfTheProtocolChanges(t *testing.T) {
	const path = "testdata/numbers.txt"
	var out strings.Builder
	for _, f := range files {
		services := f.Services()
		for i := range services.Len() {
			s := services.Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				fmt.Fprintf(&out, "/%s/%s %s %s streams %t %t\n", s.FullName(), m.Name(), m.Input().Name(),
					m.Output().Name(), m.IsStreamingClient(), m.IsStreamingServer())
			}
		}
		enums(&out, f.Enums())
		messages(&out, f.Messages())
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("the protocol is not what %s says: read the difference after -update", path)
	}
}

func messages(out *strings.Builder, all protoreflect.MessageDescriptors) {
	for i := range all.Len() {
		m := all.Get(i)
		if m.IsMapEntry() {
			continue
		}
		fmt.Fprintln(out, m.FullName())
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			fmt.Fprintf(out, "\t%d %s %s\n", f.Number(), f.Name(), kind(f))
		}
		enums(out, m.Enums())
		messages(out, m.Messages())
	}
}

func kind(f protoreflect.FieldDescriptor) string {
	name := f.Kind().String()
	switch {
	case f.IsMap():
		return fmt.Sprintf("map<%s, %s>", kind(f.MapKey()), kind(f.MapValue()))
	case f.Message() != nil:
		name = string(f.Message().FullName())
	case f.Enum() != nil:
		name = string(f.Enum().FullName())
	}
	if f.IsList() {
		return "repeated " + name
	}
	return name
}

func enums(out *strings.Builder, all protoreflect.EnumDescriptors) {
	for i := range all.Len() {
		e := all.Get(i)
		fmt.Fprintln(out, e.FullName())
		for j := range e.Values().Len() {
			fmt.Fprintf(out, "\t%d %s\n", e.Values().Get(j).Number(), e.Values().Get(j).Name())
		}
	}
}
