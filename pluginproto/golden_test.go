package pluginproto_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"berth/pluginproto/basepb"
	"berth/pluginproto/devicepb"
	"berth/pluginproto/driverpb"
	"berth/pluginproto/hclspecpb"
	"berth/pluginproto/structspb"
)

var files = []protoreflect.FileDescriptor{
	hclspecpb.File_hclspecpb_hclspec_proto,
	structspb.File_structspb_structs_proto,
	basepb.File_basepb_base_proto,
	driverpb.File_driverpb_driver_proto,
	devicepb.File_devicepb_device_proto,
}

const goldens = "testdata/messages.txt"

// Given each message of the protocol with every field set, and each choice of those that are one of several, when it is
// written, then its bytes are those that are kept, and what is kept is read as that message. A message without kept
// bytes fails, and bytes of a message that is no more.
func TestEveryMessageHasTheBytesThatPluginsRead(t *testing.T) {
	written := map[string]proto.Message{}
	for _, f := range files {
		each(f.Messages(), func(m protoreflect.MessageDescriptor) {
			for _, choice := range choices(m) {
				written[goldenName(m, choice)] = filled(m, choice, nil)
			}
		})
	}
	if *update {
		var out strings.Builder
		for _, name := range slices.Sorted(maps.Keys(written)) {
			fmt.Fprintln(&out, strings.TrimSpace(fmt.Sprintf("%s %x", name, bytesOf(t, written[name]))))
		}
		if err := os.WriteFile(goldens, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept := readGoldens(t)
	for name, m := range written {
		want, there := kept[name]
		if !there {
			t.Errorf("of %s no bytes are kept in %s", name, goldens)
			continue
		}
		if got := bytesOf(t, m); string(got) != string(want) {
			t.Errorf("%s\nis   %x\nnot  %x", name, got, want)
		}
		read := m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(want, read); err != nil || !proto.Equal(read, m) {
			t.Errorf("the bytes of %s are read as %v, not %v: %v", name, read, m, err)
		}
	}
	for name := range kept {
		if written[name] == nil {
			t.Errorf("%s keeps bytes of %s, which is no message of the protocol", goldens, name)
		}
	}
}

// Given the bytes that are kept and the list of numbers, which is compared with the published protocol by people, when
// the bytes are taken apart without any description, then each message has exactly the numbers of the list, each in
// the form of its type.
func TestTheBytesHaveTheNumbersOfTheList(t *testing.T) {
	numbers := map[string]map[protowire.Number]string{}
	list, err := os.ReadFile("testdata/numbers.txt")
	if err != nil {
		t.Fatal(err)
	}
	enums, current := map[string]bool{}, ""
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "/"):
		case !strings.HasPrefix(line, "\t"):
			current = fields[0]
			numbers[current] = map[protowire.Number]string{}
		case len(fields) == 2: // a value of an enumeration
			enums[current] = true
		default:
			n, err := strconv.Atoi(fields[0])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			numbers[current][protowire.Number(n)] = strings.Join(fields[2:], " ")
		}
	}
	seen := map[string]map[protowire.Number]bool{}
	for golden, b := range readGoldens(t) {
		name, _, _ := strings.Cut(golden, "#")
		if seen[name] == nil {
			seen[name] = map[protowire.Number]bool{}
		}
		for len(b) > 0 {
			number, form, n := protowire.ConsumeField(b)
			if n < 0 {
				t.Fatalf("%s cannot be taken apart", golden)
			}
			b = b[n:]
			seen[name][number] = true
			if of := numbers[name][number]; form != formOf(of, enums) {
				t.Errorf("%s: number %d, %q, is of form %d", golden, number, of, form)
			}
		}
	}
	for name, all := range numbers {
		for number := range all {
			if !seen[name][number] {
				t.Errorf("the bytes of %s lack number %d", name, number)
			}
		}
	}
}

// formOf is how a type goes over the wire.
func formOf(of string, enums map[string]bool) protowire.Type {
	one, repeated := strings.CutPrefix(of, "repeated ")
	switch {
	case one == "string", one == "bytes", strings.HasPrefix(one, "map<"):
		return protowire.BytesType
	case one == "double" && !repeated:
		return protowire.Fixed64Type
	case slices.Contains([]string{"bool", "int32", "int64", "uint32", "uint64"}, one), enums[one]:
		if repeated { // proto3 packs them
			return protowire.BytesType
		}
		return protowire.VarintType
	case strings.Contains(one, "."): // a message
		return protowire.BytesType
	}
	return -1
}

func readGoldens(t *testing.T) map[string][]byte {
	t.Helper()
	f, err := os.Open(goldens)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	kept := map[string][]byte{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if kept[name], err = hex.DecodeString(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := lines.Err(); err != nil || len(kept) == 0 {
		t.Fatalf("%s holds %d messages: %v", goldens, len(kept), err)
	}
	return kept
}

func each(all protoreflect.MessageDescriptors, do func(protoreflect.MessageDescriptor)) {
	for i := range all.Len() {
		if m := all.Get(i); !m.IsMapEntry() {
			do(m)
			each(m.Messages(), do)
		}
	}
}

func bytesOf(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goldenName(m protoreflect.MessageDescriptor, choice protoreflect.FieldDescriptor) string {
	if choice == nil {
		return string(m.FullName())
	}
	return fmt.Sprintf("%s#%s", m.FullName(), choice.Name())
}

// choices are the fields of which a message has one at a time; nil alone where it has no such fields.
func choices(m protoreflect.MessageDescriptor) (out []protoreflect.FieldDescriptor) {
	for i := range m.Oneofs().Len() {
		for j := range m.Oneofs().Get(i).Fields().Len() {
			out = append(out, m.Oneofs().Get(i).Fields().Get(j))
		}
	}
	if len(out) == 0 {
		out = append(out, nil)
	}
	return out
}

// filled is a message with every field set, and choice of those of which it has one at a time. A message that is within
// one of its own kind is there, and says nothing.
func filled(
	m protoreflect.MessageDescriptor, choice protoreflect.FieldDescriptor, within []protoreflect.FullName,
) proto.Message {
	within = append(slices.Clone(within), m.FullName())
	out := dynamicpb.NewMessage(m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.ContainingOneof() != nil && f != choice {
			continue
		}
		switch {
		case f.IsMap():
			out.Mutable(f).Map().Set(valueOf(f.MapKey(), 1, within).MapKey(), valueOf(f.MapValue(), 2, within))
		case f.IsList():
			for n := range 2 {
				out.Mutable(f).List().Append(valueOf(f, int(f.Number())+n, within))
			}
		default:
			out.Set(f, valueOf(f, int(f.Number()), within))
		}
	}
	return out
}

// valueOf is a value that shows its type: numbers are those that another type would write otherwise.
func valueOf(f protoreflect.FieldDescriptor, n int, within []protoreflect.FullName) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("s%d", n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{0xff, byte(n)})
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) + 0.5)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(-n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(int64(-n) << 33)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n) << 20)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n) << 40)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get(f.Enum().Values().Len() - 1).Number())
	case protoreflect.MessageKind:
		if slices.Contains(within, f.Message().FullName()) {
			return protoreflect.ValueOfMessage(dynamicpb.NewMessage(f.Message()))
		}
		return protoreflect.ValueOfMessage(filled(f.Message(), choices(f.Message())[0], within).ProtoReflect())
	}
	panic(fmt.Sprintf("%s is of kind %s, which the protocol does not have", f.FullName(), f.Kind()))
}
