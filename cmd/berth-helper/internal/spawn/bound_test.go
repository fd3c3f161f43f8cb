package spawn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"berth/internal/base/fault"
	"berth/internal/base/ids"
	"berth/internal/base/privilege"
	"berth/internal/shimproto"
)

// roleArgument makes this program a child that tells what it is.
const roleArgument = "tell-what-you-are"

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, roleArgument) {
		tell()
		return
	}
	os.Exit(m.Run())
}

// parentSignal is where the kernel writes it.
var parentSignal int32

// tell prints what a program inherits and cannot see in /proc, or only in many places.
func tell() {
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&parentSignal)), 0, 0, 0); err != nil {
		fmt.Println(err)
	}
	var cores unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &cores); err != nil {
		fmt.Println(err)
	}
	keyring, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if err != nil {
		fmt.Println(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Println(err)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		fmt.Println(err)
	}
	own := "its own"
	for line := range strings.Lines(string(groups)) {
		if !strings.HasSuffix(line, ":/\n") {
			own = "others'"
		}
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Printf("groups: %s\nusers: %s\n", own, strings.Join(strings.Fields(string(users)), " "))
	fmt.Printf("dies by signal %d\ncores up to %d\nsession keyring %d\n", parentSignal, cores.Max, keyring)
	for line := range strings.Lines(string(status)) {
		for _, name := range []string{"Uid", "Gid", "Groups", "CapEff", "CapBnd", "CapAmb", "SigBlk", "NoNewPrivs",
			"Seccomp"} {
			if strings.HasPrefix(line, name+":") {
				fmt.Print(line)
			}
		}
	}
	if name := os.Getenv(socketVariable); name != "" {
		connects(name)
	}
}

// asked starts this program as a child and reads what it tells.
func asked(t *testing.T, n *nursery, s Spec) map[string]string {
	t.Helper()
	s.Path, s.Argv = "/proc/self/exe", []string{"child", roleArgument}
	c, out, err := n.start(s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	got := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if at := strings.LastIndexByte(line, ' '); !ok && at > 0 {
			name, value = line[:at], line[at:]
		}
		got[name] = strings.TrimSpace(value)
	}
	return got
}

// allowAll is a filter of one instruction.
func allowAll() []byte {
	words := binary.NativeEndian.AppendUint16(nil, unix.BPF_RET|unix.BPF_K)
	return binary.NativeEndian.AppendUint32(append(words, 0, 0), unix.SECCOMP_RET_ALLOW)
}

func TestAChildEndsWithItsParent(t *testing.T) {
	n := newNursery(t)
	for user, spec := range map[string]Spec{
		"root":   {},
		"nobody": {User: &shimproto.User{UID: 65534, GID: 65534}},
	} {
		if got := asked(t, n, spec)["dies by signal"]; got != "9" {
			t.Errorf("as %s it dies by signal %q when its parent has ended", user, got)
		}
	}
}

func TestABoundedChildHasNothingOfItsParents(t *testing.T) {
	n := newNursery(t)
	var cores unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &cores); err != nil {
		t.Fatal(err)
	}
	if cores.Max == 0 {
		t.Skip("nothing writes core dumps here")
	}
	got := asked(t, n, Spec{
		User: &shimproto.User{UID: 65534, GID: 65534},
		Bound: &Bound{
			Keep:            []int{unix.CAP_NET_BIND_SERVICE, unix.CAP_CHOWN},
			Ambient:         []int{unix.CAP_NET_BIND_SERVICE},
			NoNewPrivileges: true,
			Filter:          allowAll(),
		},
	})
	// One without a session keyring would have its user's.
	ours := asked(t, n, Spec{})["session keyring"]
	for range 2 {
		roots := asked(t, n, Spec{Bound: &Bound{NoNewPrivileges: true}})["session keyring"]
		if roots == ours || roots == "0" || roots == "" {
			t.Errorf("its session keyring is %q, that of others %q", roots, ours)
		}
		ours = roots
	}
	delete(got, "session keyring")
	want := map[string]string{
		"dies by signal": "9",
		"groups":         "its own",
		"users":          "0 0 4294967295",
		"Uid":            "65534\t65534\t65534\t65534",
		"Gid":            "65534\t65534\t65534\t65534",
		"Groups":         "",
		"cores up to":    "0",
		"CapEff":         "0000000000000400",
		"CapAmb":         "0000000000000400",
		"CapBnd":         "0000000000000401",
		"SigBlk":         "0000000000000000",
		"NoNewPrivs":     "1",
		"Seccomp":        "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Given a socket without a file that somebody else listens at, and one of a child itself, when a child connects to
// them, then one that is confined reaches its own alone, as root too; a child that acts on the node reaches both.
func TestAConfinedChildConnectsToItsOwnSocketsAlone(t *testing.T) {
	if !privilege.ScopesSockets() {
		t.Skip("this kernel keeps nobody from sockets without a file")
	}
	name := "@berth-spawn-test-" + ids.New()
	l, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := newNursery(t)
	nobody := &shimproto.User{UID: 65534, GID: 65534}
	confined := &Bound{NoNewPrivileges: true, Filter: allowAll()}
	for who, c := range map[string]struct {
		spec Spec
		want string
	}{
		"nobody":                    {Spec{User: nobody, Bound: confined}, "EPERM"},
		"root":                      {Spec{Bound: confined}, "EPERM"},
		"one that acts on the node": {Spec{User: nobody, Bound: &Bound{}}, "allowed"},
	} {
		c.spec.Env = []string{socketVariable + "=" + name}
		got := asked(t, n, c.spec)
		if other, own := got["somebody's socket"], got["its own socket"]; other != c.want || own != "allowed" {
			t.Errorf("%s: to somebody's socket %q, want %q; to its own %q", who, other, c.want, own)
		}
	}
}

// socketVariable names a socket that a child shall connect to.
const socketVariable = "SOCKET_OF_SOMEBODY"

// connects tells of a child whether it gets to somebody's socket without a file, and to one of its own.
func connects(name string) {
	for whose, name := range map[string]string{"somebody's": name, "its own": name + "-own"} {
		if whose == "its own" {
			l, err := net.Listen("unix", name)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer l.Close()
		}
		answer := "allowed"
		if c, err := net.Dial("unix", name); errors.Is(err, unix.EPERM) {
			answer = "EPERM"
		} else if err != nil {
			answer = err.Error()
		} else {
			_ = c.Close() // it has sent nothing
		}
		fmt.Println(whose+" socket:", answer)
	}
}

// Given a parent that is in groups beside its own, when it has children of other users or of root, bounded or not, then
// none of them is in these groups.
func TestAChildIsInNoGroupsOfItsParents(t *testing.T) {
	n := newNursery(t)
	before, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setgroups(before); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Setgroups([]int{4, 24}); err != nil {
		t.Fatal(err)
	}
	if got := asked(t, n, Spec{})["Groups"]; got != "4 24" {
		t.Fatalf("who is not told whose it is is in groups %q", got)
	}
	for name, s := range map[string]Spec{
		"nobody":       {User: &shimproto.User{UID: 65534, GID: 65534}},
		"root":         {User: &shimproto.User{}},
		"bounded root": {User: &shimproto.User{}, Bound: &Bound{NoNewPrivileges: true}},
	} {
		if got := asked(t, n, s)["Groups"]; got != "" {
			t.Errorf("%s is in groups %q", name, got)
		}
	}
}

// What acts on the node keeps what the shim has.
func TestAChildWithPrivilegesKeepsThem(t *testing.T) {
	n := newNursery(t)
	unbounded := asked(t, n, Spec{})
	bounded := asked(t, n, Spec{Bound: &Bound{Keep: []int{unix.CAP_SYS_ADMIN}}})
	for _, name := range []string{"groups", "cores up to", "session keyring", "NoNewPrivs", "Seccomp"} {
		if unbounded[name] != bounded[name] {
			t.Errorf("%s: %s, and with bounded capabilities %s", name, unbounded[name], bounded[name])
		}
	}
	if unbounded["NoNewPrivs"] != "0" || unbounded["Seccomp"] != "0" {
		t.Errorf("it is %v", unbounded)
	}
}

func TestAFilterThatIsNoneIsRefused(t *testing.T) {
	n := newNursery(t)
	for name, words := range map[string][]byte{
		"half an instruction":   allowAll()[:5],
		"some bytes too many":   append(allowAll(), 1),
		"too many instructions": bytes.Repeat(allowAll(), maxFilter+1),
		"no instruction":        bytes.Repeat([]byte{0xff}, 8),
	} {
		_, _, err := n.start(Spec{Argv: []string{"/bin/true"}, Bound: &Bound{NoNewPrivileges: true, Filter: words}})
		if err == nil || !strings.Contains(err.Error(), "filter of system calls") {
			t.Errorf("%s: %v, %v", name, fault.KindOf(err), err)
		}
	}
}
