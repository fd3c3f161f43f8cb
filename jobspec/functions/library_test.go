package functions_test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-cty-funcs/cidr"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"berth/jobspec/functions"
)

// ours are the functions of a job file that a server evaluates.
var ours = functions.For("/", false)

func text(s string) cty.Value  { return cty.StringVal(s) }
func number(n int64) cty.Value { return cty.NumberIntVal(n) }

// network makes a network from bytes: IPv4, or IPv6 when wide.
func network(wide bool, address []byte, bits uint8) netip.Prefix {
	var raw [16]byte
	copy(raw[:], address)
	if wide {
		return netip.PrefixFrom(netip.AddrFrom16(raw), int(bits)%129)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), int(bits)%33)
}

// Given any network and numbers, when ours and go-cty-funcs both answer, then they give the same; and one of them
// refuses alone only where docs/adr/0027 says so.
func FuzzNetworksAgainstTheLibrary(f *testing.F) {
	f.Add(false, []byte{10, 1, 2, 3}, uint8(16), int64(5), int64(8), int64(2))
	f.Add(false, []byte{192, 168, 0, 0}, uint8(24), int64(-2), int64(4), int64(15))
	f.Add(true, []byte{0xfd}, uint8(8), int64(-1), int64(40), int64(77))
	f.Add(true, []byte{0xfd, 1}, uint8(48), int64(16), int64(16), int64(162))
	f.Add(false, []byte{255, 255, 255, 255}, uint8(32), int64(0), int64(0), int64(0))
	f.Add(false, []byte{0}, uint8(0), int64(1), int64(1), int64(1))
	f.Add(true, []byte{0x30}, uint8(32), int64(0), int64(-91), int64(0))
	f.Fuzz(func(t *testing.T, wide bool, address []byte, bits uint8, host, more, num int64) {
		p := network(wide, address, bits)
		if mapped := netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff}); p.Addr().Is4In6() || p.Contains(mapped) {
			return // the library writes addresses of ::ffff:0:0/96 as IPv4
		}
		prefix := text(p.String())
		left := int64(p.Addr().BitLen() - p.Bits())
		agree(t, "cidrhost", cidr.HostFunc, "", prefix, number(host))
		agree(t, "cidrnetmask", cidr.NetmaskFunc, oneSided(wide, "IPv6 networks have no netmask"), prefix)
		agree(t, "cidrsubnet", cidr.SubnetFunc, oneSided(more > 32 || more < 0, "more than 32 bits, or <nil>"), prefix,
			number(more), number(num))
		first, second := max(0, min(more, left)), max(0, min(num, left))
		reason := oneSided(first == 0 || second == 0 || max(first, second) > 32, "0 bits, or more than 32") +
			oneSided(p.Masked().Addr().IsUnspecified(), "a network before 0.0.0.0")
		agree(t, "cidrsubnets", cidr.SubnetsFunc, reason, prefix, number(first), number(second))
	})
}

func oneSided(is bool, why string) string {
	if is {
		return why
	}
	return ""
}

// agree holds ours against the library; difference tells why one of them alone may answer.
func agree(t *testing.T, name string, library function.Function, difference string, args ...cty.Value) {
	t.Helper()
	a, errOurs := ours[name].Call(args)
	b, errTheirs := library.Call(args)
	switch {
	case errOurs != nil && errTheirs != nil:
	case errOurs == nil && errTheirs == nil:
		if !a.RawEquals(b) {
			t.Errorf("%s(%#v): ours %#v, the library's %#v", name, args, a, b)
		}
	case difference == "":
		t.Errorf("%s(%#v): ours %#v %v, the library's %#v %v", name, args, a, errOurs, b, errTheirs)
	}
}

// Given any text, when it is decoded by ours and by go-cty-funcs, then they agree. Ours stays since the other writes
// what it decoded into the log, and the text into its error.
func FuzzBase64DecodeAgainstTheLibrary(f *testing.F) {
	log.SetOutput(io.Discard)
	f.Add("aGk=")
	f.Add("/w==")
	f.Add("aGk")
	f.Add("a\nGk=")
	f.Fuzz(func(t *testing.T, s string) { agree(t, "base64decode", encoding.Base64DecodeFunc, "", text(s)) })
}

// Given arguments, when a function of go-cty has a bound here, then within the bound it answers as without it.
func FuzzBoundedFunctionsAgainstTheLibrary(f *testing.F) {
	f.Add("aXbX", "X", "-", int64(2))
	f.Add("", "", strings.Repeat("x", 2000), int64(-1))
	f.Add("%99999d", "a", "b", int64(1001))
	f.Fuzz(func(t *testing.T, a, b, c string, n int64) {
		for _, call := range []struct {
			name    string
			library function.Function
			args    []cty.Value
		}{
			{"replace", stdlib.ReplaceFunc, []cty.Value{text(a), text(b), text(c)}},
			{"join", stdlib.JoinFunc, []cty.Value{text(a), cty.ListVal([]cty.Value{text(b), text(c)})}},
			{"indent", stdlib.IndentFunc, []cty.Value{number(n), text(a)}},
			{"format", stdlib.FormatFunc, []cty.Value{text(a), text(b), number(n)}},
			{"setproduct", stdlib.SetProductFunc,
				[]cty.Value{cty.SetVal([]cty.Value{text(a), text(b)}), cty.ListVal([]cty.Value{text(c)})}},
		} {
			got, err := ours[call.name].Call(call.args)
			if err != nil {
				continue // refused by both, or beyond the bound: that one is not asked of the library
			}
			want, err := call.library.Call(call.args)
			if err != nil || !got.RawEquals(want) {
				t.Errorf("%s(%#v): %#v, the library's %#v %v", call.name, call.args, got, want, err)
			}
		}
	})
}

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Given any text, when a function of go-cty-funcs is called, then it does what its documentation says.
func FuzzFunctionsOfTheLibraryKeepTheirRules(f *testing.F) {
	f.Add("")
	f.Add("a b/ü&=+")
	f.Fuzz(func(t *testing.T, s string) {
		arg := text(s)
		s = arg.AsString() // in normal form
		for name, want := range map[string]string{
			"md5":    fmt.Sprintf("%x", md5.Sum([]byte(s))),
			"sha1":   fmt.Sprintf("%x", sha1.Sum([]byte(s))),
			"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(s))),
			"sha512": fmt.Sprintf("%x", sha512.Sum512([]byte(s))),
		} {
			if got := call(t, name, arg); got != want {
				t.Errorf("%s(%q): %s", name, s, got)
			}
		}
		if back, err := url.QueryUnescape(call(t, "urlencode", arg)); err != nil || back != s {
			t.Errorf("urlencode(%q) comes back as %q, %v", s, back, err)
		}
		encoded := call(t, "base64encode", arg)
		if back, err := ours["base64decode"].Call([]cty.Value{text(encoded)}); err == nil && back.AsString() != s {
			t.Errorf("base64encode(%q) comes back as %q", s, back.AsString())
		}
		v5 := call(t, "uuidv5", text("dns"), arg)
		if !uuidForm.MatchString(v5) || v5 != call(t, "uuidv5", text("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), arg) ||
			v5[14] != '5' {
			t.Errorf("uuidv5: %s", v5)
		}
		sum := sha1.Sum(append(unhex(t, "6ba7b8109dad11d180b400c04fd430c8"), s...))
		if v5[:8] != hex.EncodeToString(sum[:4]) {
			t.Errorf("uuidv5 of %q: %s is not of RFC 9562", s, v5)
		}
		if v4 := call(t, "uuidv4"); !uuidForm.MatchString(v4) || v4[14] != '4' {
			t.Errorf("uuidv4: %s", v4)
		}
	})
}

func call(t *testing.T, name string, args ...cty.Value) string {
	t.Helper()
	v, err := ours[name].Call(args)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v.AsString()
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The cases that decided, in which ours and the library differ or differed.
func TestWhereTheLibraryDiffers(t *testing.T) {
	const urn = "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for _, c := range []struct {
		name string
		args []cty.Value
		want string // empty: refused
	}{
		{"uuidv5", []cty.Value{text("dns"), text("tada")}, "faa898db-9b9d-5b75-86a9-149e7bb8e3b8"},
		// the library's: a URN is taken
		{"uuidv5", []cty.Value{text(urn), text("tada")}, "faa898db-9b9d-5b75-86a9-149e7bb8e3b8"},
		{"uuidv5", []cty.Value{text("x"), text("tada")}, ""},
		{"bcrypt", []cty.Value{text("a"), number(3)}, ""},
		{"bcrypt", []cty.Value{text("a"), number(15)}, ""}, // the library would take seconds, and hours for 31
		{"bcrypt", []cty.Value{text("a"), cty.NumberVal(big.NewFloat(4.5))}, ""},
		{"bcrypt", []cty.Value{text("a"), number(4), number(4)}, ""},
		{"bcrypt", []cty.Value{text(strings.Repeat("a", 73)), number(4)}, ""},
		{"cidrhost",
			[]cty.Value{text("fd00::/8"), cty.NumberVal(new(big.Float).SetInt(new(big.Int).Lsh(big.NewInt(1), 64)))},
			"fd00:0:0:1::"}, // the library: numbers of 63 bits
		// the library: 32 bits at most
		{"cidrsubnet", []cty.Value{text("fd00::/8"), number(40), number(5)}, "fd00:0:5::/48"},
		{"cidrnetmask", []cty.Value{text("fd00::/8")}, ""}, // the library: ff00::
	} {
		got, err := ours[c.name].Call(c.args)
		switch {
		case err != nil && c.want != "":
			t.Errorf("%s(%#v): %v", c.name, c.args, err)
		case err == nil && got.AsString() != c.want:
			t.Errorf("%s(%#v): %s, want %q", c.name, c.args, got.AsString(), c.want)
		}
	}
}
