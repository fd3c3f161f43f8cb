package volume

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Equal tells whether two wishes of mount options are one: the same file system, and the same set of flags. The order
// of flags does not count, nor how often one stands there: flags are switches of a mount, people and tools spell them
// in any order, and a volume is mounted once per node, with the spelling of whoever came first. Flags that contradict
// each other, of which the last would win, are a mistake in any order. What stands in a flag counts to the letter:
// "a,b" is one flag to a plugin, not two. No options and empty ones are the same.
func (o *MountOptions) Equal(p *MountOptions) bool {
	var a, b MountOptions
	if o != nil {
		a = *o
	}
	if p != nil {
		b = *p
	}
	return a.FSType == b.FSType && slices.Equal(flagSet(a.MountFlags), flagSet(b.MountFlags))
}

// keepOwners are file systems that belong to another machine, which alone knows whose a file is: no kernel shows their
// files with other numbers of users (an idmapped mount).
var keepOwners = []string{"9p", "cifs", "nfs", "nfs4", "smb3"}

// KeepsOwners reports whether a volume with these options is sure to show its files with the numbers of users that they
// have, and with no others. Of most file systems it is not known: a plugin mounts what it likes.
func (o *MountOptions) KeepsOwners() bool { return o != nil && slices.Contains(keepOwners, o.FSType) }

func flagSet(flags []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(flags)))
}

// Wish names what a claim asks of a plugin: modes and mount options. Equal wishes have one name, from which nothing can
// be read, because mount flags may be sensitive (CSI spec, MountVolume).
func Wish(access AccessMode, attachment AttachmentMode, o *MountOptions) string {
	parts := []string{string(access), string(attachment)}
	if o != nil {
		parts = append(append(parts, o.FSType), flagSet(o.MountFlags)...)
	} else {
		parts = append(parts, "")
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Clone copies the options with their flags.
func (o *MountOptions) Clone() *MountOptions {
	if o == nil {
		return nil
	}
	return &MountOptions{
		FSType:     o.FSType,
		MountFlags: slices.Clone(o.MountFlags),
	}
}

// Compatible tells whether a claim asks for the use that a volume is in: all claims of a volume share its modes and its
// mount options, which the first one sets; a volume that is not in use takes any. If not, why continues a sentence that
// begins with the volume. Which of the claims can be held at the same time is told by Excludes.
func Compatible(v *Volume, c *Claim) (ok bool, why string) {
	st := v.Status
	switch {
	case st.AccessMode == "":
		return true, ""
	case st.AccessMode != c.AccessMode || st.AttachmentMode != c.AttachmentMode:
		return false,
			fmt.Sprintf("is in use as %s with %s, the job asks for %s with %s", st.AccessMode, st.AttachmentMode,
				c.AccessMode, c.AttachmentMode)
	case !st.MountOptions.Equal(c.MountOptions):
		return false, "is in use with other mount options"
	}
	return true, ""
}

// UsedAs returns the volume in use as the claim asks; one that is in use already stays as it is.
func (v *Volume) UsedAs(c *Claim) *Volume {
	if v.Status.AccessMode != "" {
		return v
	}
	n := *v
	n.Status.AccessMode = c.AccessMode
	n.Status.AttachmentMode = c.AttachmentMode
	n.Status.MountOptions = c.MountOptions
	return &n
}

// Unused returns the volume in no use.
func (v *Volume) Unused() *Volume {
	n := *v
	n.Status.AccessMode = ""
	n.Status.AttachmentMode = ""
	n.Status.MountOptions = nil
	return &n
}
