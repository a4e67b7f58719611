// SPDX-License-Identifier: Apache-2.0

// Package libvirt runs machines as libvirt's domains, through the daemon's socket
// on the same host. A machine is a domain with a stamp of Berth's in its metadata
// and a folder:
//
//	domain berth-<instance>, its UUID the instance id
//	  metadata  what it is and what was last done for it; see stamp
//	<dir>/<instance>/console.log  what the guest prints; see package console
//	                 disk.qcow2   its disk, on top of the image
//	                 domain.xml   a copy of the domain's definition; see definitionFile
//	                 base.<format>, kernel, initrd  the image: links to copies in <dir>/.images
//	                 seed.iso     its cloud-init seed
//
// The domain is defined before there is any file and undefined behind the last: as long as anything is there, so is
// the mark of its owner. Prepare starts it paused, Launch lets it go.
//
//	                         domain        stamp
//	preparing                shut off      Ready false
//	prepared                 paused        Ready
//	launched, not yet let go paused        Launched, Wanted running
//	running                  running       Launched, Released, Wanted running
//	stopped by command       shut off      Launched, Wanted stopped
//	ended otherwise          shut off      Launched, Wanted running
//
// libvirt keeps one process a domain at most. No connection lasts longer than
// a call, but that of Events: a daemon that was restarted is met by the next call.
package libvirt
