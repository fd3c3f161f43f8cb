// Package users owns what the name of a user means on this node, and whom tasks may not run as. Drivers, the launcher
// and the makers of directories import it.
package users

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"

	"berth/internal/base/fault"
)

// User is a user in numbers, as the kernel knows it.
type User struct {
	UID, GID uint32
	Groups   []uint32 // beyond GID; none where the group was named
	// Entry is the user's in the node's passwd file; nil: it has none.
	Entry *user.User
}

// Resolve looks up "name", "uid", "name:group" or "uid:gid". fault.Invalid: the node does not know it.
func Resolve(spec string) (*User, error) {
	subject := "user " + strconv.Quote(spec)
	name, group, withGroup := strings.Cut(spec, ":")
	out := &User{}
	entry, err := lookup(name)
	switch {
	case err == nil:
		out, err = fromEntry(entry)
	case errors.As(err, new(user.UnknownUserError)):
		err = fault.WithHint(fault.New(fault.Invalid, "", subject, "the node does not know it"),
			"create the user on the node, or give uid:gid in numbers")
	case !isNumber(name):
		err = fault.Wrap(err, fault.Invalid, "", subject)
	case !withGroup:
		err = fault.WithHint(
			fault.New(fault.Invalid, "", subject,
				"the node's passwd file has no such number, so its group is not known"), "give uid:gid")
	default:
		out.UID, err = number(name)
		err = fault.Wrap(err, fault.Invalid, "", subject)
	}
	if err != nil {
		return nil, err
	}
	if withGroup {
		out.Groups = nil
		if out.GID, err = resolveGroup(group); err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "", subject)
		}
	}
	return out, nil
}

func lookup(name string) (*user.User, error) {
	if isNumber(name) {
		// The C library takes as many bits as a number of its kind has: 4294967296 would be root.
		if _, err := number(name); err != nil {
			return nil, err
		}
		return user.LookupId(name)
	}
	return user.Lookup(name)
}

func fromEntry(u *user.User) (*User, error) {
	uid, err1 := number(u.Uid)
	gid, err2 := number(u.Gid)
	groups, err3 := u.GroupIds()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fault.Wrap(err, fault.Internal, "look up", "user "+strconv.Quote(u.Username))
	}
	out := &User{UID: uid, GID: gid, Entry: u}
	for _, g := range groups {
		n, err := number(g)
		if err != nil {
			return nil, fault.Wrap(err, fault.Internal, "look up", "groups of user "+strconv.Quote(u.Username))
		}
		out.Groups = append(out.Groups, n)
	}
	return out, nil
}

func resolveGroup(name string) (uint32, error) {
	if isNumber(name) {
		return number(name)
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return number(g.Gid)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}

// Owner is whom a file belongs to that the agent makes for a task of a user; below 0: whoever writes it, where the task
// names nobody or the agent is not root. Errors are those of Resolve.
func Owner(spec string) (uid, gid int, err error) {
	if spec == "" || os.Geteuid() != 0 {
		return -1, -1, nil
	}
	u, err := Resolve(spec)
	if err != nil {
		return 0, 0, err
	}
	return int(u.UID), int(u.GID), nil
}
