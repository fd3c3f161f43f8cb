// Package localcsi owns the bundled CSI plugin: volumes that are image files in a directory of one node, bound to loop
// devices, with ext4, xfs or nothing on them. It is a leaf: package cmd runs it as its own process ("berth plugin
// local-csi") and nothing else imports it.
//
// The directory is the truth about what exists: a volume or snapshot is a directory that appeared by one rename and
// goes by one rename, so there is never half of one. The kernel's mount table is the truth about what is in use. Beside
// them lie notes of this boot (what was asked when a volume was staged or published), and a marker for the time in
// which a file system is frozen. A plugin that was killed anywhere finds its way from these at its next start.
//
// Its packages: request reads what was asked, answer says no, store keeps the records, data directory owns the data
// directory and the node's use of it, controller and node are the two CSI services over a data directory; loop, mount
// and image are the hands, and blocktrace knows which blocks of a device are written.
package localcsi
