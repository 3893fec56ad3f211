#!/bin/sh
# Made by `ibi init`: puts the units of systemd and the configuration of the proxy into their places, and starts all.
# It may be run again after each change.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
if [ "$(id -u)" != 0 ]; then
    echo "run this as root: sudo sh $0" >&2
    exit 1
fi

install -d /etc/sysusers.d /etc/systemd/system
install -m 644 "$here/systemd/ibi.conf" /etc/sysusers.d/ibi.conf
systemd-sysusers
{% for folder in folders %}
# Only what belongs to another user: a file that is touched from outside is one of which no label is given.
if [ -n "$(find {{ folder }} ! -user {{ user }} -print -quit)" ]; then
    find {{ folder }} ! -user {{ user }} -exec chown -h {{ user }}: {} +
    runuser -u {{ user }} -- {{ program }} mint recover --data {{ folder }} > /dev/null
fi
{% endfor %}

# Where a socket listens: one that goes on listening there stays open, so that no reader is refused meanwhile.
listens() { cat "/etc/systemd/system/${1%@*}@.socket" "/etc/systemd/system/$1.socket.d/port.conf" 2> /dev/null || true; }
{% for unit in units %}
before_{{ loop.index }}=$(listens {{ unit }})
rm -f {{ "/etc/systemd/system/" ~ unit ~ ".socket.d/port.conf" }}
{% endfor %}
cd "$here/systemd"
find . -type f ! -name ibi.conf -exec install -D -m 644 {} /etc/systemd/system/{} \;

# Puts $1 into the place $2, unless $2 was edited since this script wrote it: then it no longer equals $2.installed.
place() {
    placed=
    if [ -e "$2" ] && [ -e "$2.installed" ] && ! cmp -s "$2" "$2.installed"; then
        echo "$2 was edited, so it stays as it is; the new one is $1"
    else
        install -D -m 644 "$1" "$2"
        placed=yes
    fi
}
# Remembers what was put into the place $1.
remember() {
    [ -z "$placed" ] || cp "$1" "$1.installed"
}
{% if proxy == "caddy" %}

# A configuration that was written for other sites stays.
if [ ! -e /etc/caddy/Caddyfile ] || grep -q -e '^# The Caddyfile is an easy way' -e 'in front of Archives and resolvers' /etc/caddy/Caddyfile; then
    place "$here/proxy/Caddyfile" /etc/caddy/Caddyfile
    remember /etc/caddy/Caddyfile
    systemctl reload-or-restart caddy || echo "Caddy does not run yet: install it, then run this again"
else
    echo "/etc/caddy/Caddyfile has other sites; add those of $here/proxy/Caddyfile, then: systemctl reload caddy"
fi
{% elif proxy == "nginx" %}

# Certificates come first: the configuration says how.
before=
if [ -e /etc/nginx/conf.d/ibi.conf ]; then
    before=/etc/nginx/conf.d/ibi.conf.before  # nginx reads only what ends in .conf
    cp -p /etc/nginx/conf.d/ibi.conf $before
fi
place "$here/proxy/nginx.conf" /etc/nginx/conf.d/ibi.conf
if nginx -q -t; then
    remember /etc/nginx/conf.d/ibi.conf
    systemctl reload-or-restart nginx || echo "nginx does not run yet: see journalctl -u nginx"
    rm -f /etc/nginx/conf.d/ibi.conf.before
elif [ -n "$before" ]; then
    mv $before /etc/nginx/conf.d/ibi.conf
    echo "nginx does not accept its configuration, so /etc/nginx/conf.d/ibi.conf is as it was: see nginx -t"
else
    rm /etc/nginx/conf.d/ibi.conf  # nginx would not start again with it, for no other site either
    echo "$here/proxy/nginx.conf says how to get the certificates that nginx needs; then run this again"
fi
{% elif proxy == "haproxy" %}

# A configuration that was written for other sites stays.
if [ ! -e /etc/haproxy/haproxy.cfg ] || grep -q 'in front of Archives and resolvers' /etc/haproxy/haproxy.cfg ||
    ! grep -q -E '^(frontend|listen) ' /etc/haproxy/haproxy.cfg; then
    place "$here/proxy/haproxy.cfg" /etc/haproxy/haproxy.cfg
    remember /etc/haproxy/haproxy.cfg
    systemctl reload-or-restart haproxy || echo "HAProxy does not run yet; $here/proxy/haproxy.cfg says which certificates it needs"
else
    echo "/etc/haproxy/haproxy.cfg is there already; put $here/proxy/haproxy.cfg in its place, then: systemctl reload haproxy"
fi
{% endif %}

# The proxy runs first, because an Archive asks its resolver for inclusion as soon as it is served.
systemctl daemon-reload
{% for unit in units %}
systemctl enable {{ unit }}.socket {{ unit }}.service
if [ "$(listens {{ unit }})" != "$before_{{ loop.index }}" ]; then
    systemctl restart {{ unit }}.socket
fi
systemctl start {{ unit }}.socket
systemctl restart {{ unit }}.service
{% endfor %}
