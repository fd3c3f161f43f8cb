package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"berth/internal/base/fault"
	"berth/internal/base/redact"
)

// The length of a token in characters. Whoever reaches the port may guess as long as he likes.
const (
	minToken = 16
	maxToken = 4096
)

// ReadToken reads the token that clients must show. Its file must be uid's alone; space around the token is left out.
func ReadToken(path string, uid int) (redact.Secret, error) {
	// Not blocking: what is no file may have nobody at its other end.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		var at *os.PathError // its text would repeat the path
		if errors.As(err, &at) {
			err = at.Err
		}
		return redact.Secret{}, fault.WithHint(fault.Wrap(err, fault.Invalid, "", ""),
			"make it: ( umask 077 && head -c 32 /dev/urandom | base64 > "+path+" )")
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return redact.Secret{}, err
	}
	if err := private(path, st, uid); err != nil {
		return redact.Secret{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+64))
	if err != nil {
		return redact.Secret{}, fault.Wrap(err, fault.Invalid, "", "")
	}
	return parseToken(bytes.TrimSpace(text))
}

// private refuses what others than its owner may read or change.
func private(path string, st os.FileInfo, uid int) error {
	owner := int(st.Sys().(*syscall.Stat_t).Uid)
	switch perm := st.Mode().Perm(); {
	case !st.Mode().IsRegular():
		return refused("it is not a regular file", "name a file that holds the token alone")
	case owner != uid:
		return refused(fmt.Sprintf("it belongs to user %d, and the agent runs as user %d", owner, uid),
			fmt.Sprintf("chown %d %s", uid, path))
	case perm&0o077 != 0:
		return refused(fmt.Sprintf("its mode %04o lets group or others at it", perm),
			"chmod 600 "+path+", and change the token if others may have read it")
	}
	return nil
}

func refused(why, hint string) error {
	return fault.WithHint(fault.New(fault.Invalid, "", "", why), hint)
}

// parseToken takes what a header can carry.
func parseToken(text []byte) (redact.Secret, error) {
	var none redact.Secret
	switch {
	case len(text) < minToken:
		return none, refused(fmt.Sprintf("its token has %d characters, and must have at least %d", len(text), minToken),
			"write a longer one, such as that of: head -c 32 /dev/urandom | base64")
	case len(text) > maxToken:
		return none, refused(fmt.Sprintf("its token has more than %d characters", maxToken), "write a shorter one")
	case bytes.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }):
		return none, refused("its token has space or characters beyond ASCII within",
			"write one word of letters, digits and signs")
	}
	return redact.New(string(text)), nil
}
