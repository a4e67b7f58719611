// SPDX-License-Identifier: Apache-2.0

package clientcert

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/pkg/auth"
	"github.com/berth-project/berth/pkg/auth/grant"
	"github.com/berth-project/berth/pkg/compute"
	"github.com/berth-project/berth/pkg/config"
	"github.com/berth-project/berth/pkg/tlsfiles/tlstest"
)

var rules = []Rule{
	{CommonName: "ops", Cell: auth.RoleOperator},
	{CommonName: "root", Cell: auth.RoleAdmin},
	{CommonName: "root", Cell: auth.RoleOperator, Projects: []grant.Project{{Project: "a", Role: auth.RoleReader}}},
	{URI: "spiffe://example.org/ci", Projects: []grant.Project{
		{Project: "a", Role: auth.RoleMember}, {Project: "b", Role: auth.RoleReader}, {Project: "a", Role: auth.RoleReader},
	}},
}

// TestOverTheNetwork: which principal a certificate makes of its caller, through a real handshake.
func TestOverTheNetwork(t *testing.T) {
	ours, theirs := tlstest.New(t, "ours"), tlstest.New(t, "theirs")
	a := New(rules, nil)
	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok, err := a.Authenticate(r.Context(), r)
		p.Expires = time.Time{}
		fmt.Fprint(w, p.Name, p.Projects, p.Cell, p.Name == p.ID, ok, err)
	}))
	node.TLS = &tls.Config{
		Certificates: []tls.Certificate{ours.Server().Pair(t)}, ClientCAs: ours.Pool(),
		ClientAuth: tls.VerifyClientCertIfGiven,
	}
	node.StartTLS()
	defer node.Close()
	for name, c := range map[string]struct {
		show *tlstest.Issued
		want string
	}{
		"nothing": {nil, "map[]truefalse<nil>"},
		"ops":     {issued(ours.Client("ops", "")), "cert:CN=opsmap[]operatortruetrue<nil>"},
		"root":    {issued(ours.Client("root", "")), "cert:CN=rootmap[a:reader]admintruetrue<nil>"},
		"ci": {
			issued(ours.Client("x", "spiffe://example.org/ci")),
			"cert:spiffe://example.org/cimap[a:member b:reader]truetrue<nil>",
		},
		"below ci":    {issued(ours.Client("x", "spiffe://example.org/ci/x")), "map[]truefalse<nil>"},
		"Ops":         {issued(ours.Client("Ops", "")), "map[]truefalse<nil>"},
		"no name":     {issued(ours.Client("", "")), "map[]truefalse<nil>"},
		"not trusted": {issued(theirs.Client("ops", "")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{RootCAs: ours.Pool()}
			if c.show != nil {
				pair := c.show.Pair(t)
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
			resp, err := client.Get(node.URL)
			if (err != nil) != (c.want == "") {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if got := strings.ReplaceAll(string(body), " ", ""); got != strings.ReplaceAll(c.want, " ", "") {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func issued(i tlstest.Issued) *tlstest.Issued { return &i }

// chainOf is what a connection has verified.
func chainOf(chain ...*x509.Certificate) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}, PeerCertificates: chain}
	return r
}

// What has expired since the handshake counts no more, on whatever connection; and what nobody has
// verified never does.
func TestExpires(t *testing.T) {
	now := time.Now()
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: "ops"}, NotBefore: now.Add(-1), NotAfter: now.Add(time.Hour)}
	between := &x509.Certificate{NotBefore: now.Add(-1), NotAfter: now.Add(time.Minute)}
	a := New(rules, func() time.Time { return now })
	p, ok, err := a.Authenticate(t.Context(), chainOf(leaf, between))
	if diff := cmp.Diff(auth.Principal{
		Name: "cert:CN=ops", ID: "cert:CN=ops", Cell: auth.RoleOperator, Expires: leaf.NotAfter,
	}, p); diff != "" || !ok || err != nil {
		t.Error(diff, ok, err)
	}
	now = now.Add(2 * time.Minute)
	for name, chain := range map[string][]*x509.Certificate{
		"an authority between has expired": {leaf, between},
		"it begins later":                  {{Subject: leaf.Subject, NotBefore: now.Add(1), NotAfter: now.Add(time.Hour)}},
	} {
		_, ok, err := a.Authenticate(t.Context(), chainOf(chain...))
		if ok || compute.KindOf(err) != compute.KindUnauthenticated || !strings.Contains(err.Error(), "renew it") {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
	if _, ok, err := a.Authenticate(t.Context(), chainOf(leaf)); !ok || err != nil {
		t.Errorf("refused while it counts: %v", err)
	}
	unverified := chainOf(leaf)
	unverified.TLS.VerifiedChains = nil
	if _, ok, err := a.Authenticate(t.Context(), unverified); ok || err != nil {
		t.Errorf("taken without an authority: %v", err)
	}
}

func TestRulesAreChecked(t *testing.T) {
	if err := Check(rules); err != nil {
		t.Error(err)
	}
	a := []grant.Project{{Project: "a", Role: auth.RoleReader}}
	with := func(project compute.Project, role auth.Role) Rule {
		return Rule{CommonName: "x", Projects: []grant.Project{{Project: project, Role: role}}}
	}
	for say, r := range map[string]Rule{
		"common_name \"\" is not valid; give a common_name or a uri":     {Projects: a},
		"common_name \"x\" is not valid; give a common_name or a uri":    {CommonName: "x", URI: "spiffe://x/y", Projects: a},
		"uri \"ci\" is not valid":                                        {URI: "ci", Projects: a},
		"projects \"\" is not valid":                                     {CommonName: "x"},
		"certificates, entry 1: projects, entry 1: project \"A b\"":      with("A b", "reader"),
		"role \"admin\" is not valid; give reader or member":             with("a", "admin"),
		"role \"\" is not valid; give reader or member":                  with("a", ""),
		"certificates, entry 1: cell \"member\" is not valid; give oper": {CommonName: "x", Cell: "member"},
	} {
		err := Check([]Rule{r})
		if err == nil || !strings.Contains(err.Error(), say) || compute.KindOf(config.All(err)[0]) != compute.KindInvalid {
			t.Errorf("%+v: %v, want %s", r, err, say)
		}
	}
}
