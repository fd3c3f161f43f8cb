package spawn

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"berth/internal/shimproto"
)

// firstID is where the numbers begin of the user namespaces of these tests.
const firstID = 1 << 20

// inNamespace describes a child of a user in a user namespace, and otherwise among the test's own.
func inNamespace(t *testing.T, user *shimproto.User) Spec {
	t.Helper()
	users, err := UserNamespace(firstID)
	if err != nil {
		t.Fatal(err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := users.Close(); err != nil {
			t.Error(err)
		}
		if err := unix.Close(self); err != nil {
			t.Error(err)
		}
	})
	return Spec{
		User:  user,
		Enter: &Enter{PidFD: self, Flags: unix.CLONE_NEWUTS, Users: users, FirstID: firstID},
		Bound: &Bound{
			Keep:            []int{unix.CAP_CHOWN, unix.CAP_SETUID},
			Ambient:         []int{unix.CAP_CHOWN},
			NoNewPrivileges: true,
			Filter:          allowAll(),
		},
	}
}

// Given a user namespace, when children of several users are born in it, then each is its user there, with the
// capabilities that it was left and no others, and all else of a bounded child; what they have of the kernel is counted
// to the namespace's first user.
func TestAChildHasUsersOfItsOwn(t *testing.T) {
	n := newNursery(t)
	for name, c := range map[string]struct {
		user *shimproto.User
		want map[string]string
	}{
		"root": {&shimproto.User{}, map[string]string{"Uid": "0\t0\t0\t0", "CapEff": "0000000000000081",
			"CapAmb": "0000000000000000"}},
		"nobody": {&shimproto.User{UID: 65534, GID: 65534, Groups: []uint32{1}}, map[string]string{
			"Uid": "65534\t65534\t65534\t65534", "CapEff": "0000000000000001", "CapAmb": "0000000000000001"}},
	} {
		spec := inNamespace(t, c.user)
		var owner uint32
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, spec.Enter.Users.Fd(), unix.NS_GET_OWNER_UID,
			uintptr(unsafe.Pointer(&owner))); errno != 0 || owner != firstID {
			t.Errorf("the namespace is user %d's, %v", owner, errno)
		}
		got := asked(t, n, spec)
		for field, want := range map[string]string{"users": "0 1048576 65536", "Gid": c.want["Uid"],
			"CapBnd": "0000000000000081", "groups": "its own", "NoNewPrivs": "1", "Seccomp": "2",
			"dies by signal": "9"} {
			c.want[field] = want
		}
		for field, want := range c.want {
			if got[field] != want {
				t.Errorf("as %s, %s: %q, want %q", name, field, got[field], want)
			}
		}
	}
}

// A child that would stay the node's root in the namespace, or be nobody of it, is not born.
func TestAChildIsAUserOfItsNamespace(t *testing.T) {
	n := newNursery(t)
	for name, user := range map[string]*shimproto.User{
		"nobody named": nil,
		"user":         {UID: 65536},
		"group":        {GID: 65536},
		"other group":  {Groups: []uint32{3, 65536}},
	} {
		s := inNamespace(t, user)
		s.Argv = []string{"/bin/true"}
		if _, _, err := n.start(s); err == nil || !strings.Contains(err.Error(), "user namespace") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
