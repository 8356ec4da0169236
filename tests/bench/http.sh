#!/bin/bash
# Compares requests per second of nisd with those of nginx for a fixed response of the same size. "Anew" are requests that
# differ in a parameter that is not looked at, so that nisd cannot answer them with a kept response.
#
#   tests/bench/http.sh
#
# Needs nginx, wrk, curl and jq, and a release build of nisd. Both servers run at the same time and are measured in
# turns, so that other load on the machine affects both. DURATION (10s), ROUNDS (3) and NISD (target/release/nisd) can be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
duration=${DURATION:-10s} rounds=${ROUNDS:-3} nisd=${NISD:-target/release/nisd}
chain=tests/data/recorded/chains/all-forks
work=$(mktemp -d)
node='' proxy=''
stop() {
    [ -z "$node" ] || kill "$node" 2>/dev/null || true
    [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true
    wait
    rm -rf "$work"
}
trap stop EXIT

free_port() { # prints the first free port from $1 on
    local port=$1
    while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
    echo "$port"
}

# The node, on the imported chain.
"$nisd" import --log warn --config "$chain/network.properties" --data "$work/store" "$chain/blocks.bin.gz"
port=$(free_port 17890) websocket=$(free_port 17778)
# No limits on the rate: with this rule, in versions that have it, every request of this machine has local access.
local=()
if "$nisd" settings | grep -q nisd.localAccess; then local=(--set nisd.localAccess=address); fi
"$nisd" run --log warn --config "$chain/network.properties" --data "$work/store" --clock 241500 --bind 127.0.0.1 "${local[@]}" \
    --http-port "$port" --websocket-port "$websocket" 2>"$work/nisd.log" &
node=$!
nisd_url=http://127.0.0.1:$port
curl -sf --retry 50 --retry-connrefused --retry-delay 1 "$nisd_url/chain/height" >"$work/height"

# The middle one of the blocks with ten transactions, and a signer of such a block without multisig.
zcat "$chain/blocks.jsonl.gz" | jq -r 'select(.transactionCount == 10) | "\(.height) \(.signerAddress)"' >"$work/ten"
height=$(sed -n "$(($(wc -l <"$work/ten") / 2))p" "$work/ten" | cut -d' ' -f1)
curl -sf -H 'Content-Type: application/json' -d "{\"height\":$height}" "$nisd_url/block/at/public" >"$work/block"
[ "$(jq '.transactions | length' "$work/block")" = 10 ]
for address in $(cut -d' ' -f2 "$work/ten" | sort -u); do
    curl -sf "$nisd_url/account/get?address=$address" >"$work/account"
    if jq -e '.meta | .cosignatories == [] and .cosignatoryOf == []' "$work/account" >/dev/null; then break; fi
done
jq -e '.meta | .cosignatories == [] and .cosignatoryOf == []' "$work/account" >/dev/null

# The last block, a full page of an account's transactions, and the first of them.
curl -sf "$nisd_url/chain/last-block" >"$work/last"
for at in $(cut -d' ' -f1 "$work/ten" | head -n 40); do
    curl -sf -H 'Content-Type: application/json' -d "{\"height\":$at}" "$nisd_url/block/at/public"
done | jq -r '.transactions[].recipient? // empty' | sort | uniq -c | sort -rn | awk '{print $2}' >"$work/recipients"
while read -r address; do
    curl -sf "$nisd_url/account/transfers/all?address=$address" >"$work/transfers"
    if jq -e '.data | length == 25' "$work/transfers" >/dev/null; then break; fi
done <"$work/recipients"
jq -e '.data | length == 25' "$work/transfers" >/dev/null
transfers="/account/transfers/all?address=$address"
transaction="/transaction/get?hash=$(jq -r '.data[0].meta.hash.data' "$work/transfers")"
curl -sf "$nisd_url$transaction" >"$work/transaction"

# A page of mosaic definitions, and the metrics, which differ each time.
mosaics='/mosaic/definition/page?pageSize=25'
curl -sf "$nisd_url$mosaics" >"$work/mosaics"
curl -sf "$nisd_url/metrics" >"$work/metrics"

# nginx with the same bodies and headers, one worker.
head=$(curl -si "$nisd_url/chain/height" | tr -d '\r' | sed -n '2,/^$/p' |
    sed -n '/^\(Content-\(Type\|Length\)\|Connection\|Date\|Server\):/Id; s/^\([^:]*\): \(.*\)$/    add_header \1 "\2";/p')
answer() { # a location that returns file $2, in pieces because nginx limits parameters to 4096 bytes
    local all='' piece
    rm -f "$work"/piece.*
    split -b 2000 "$2" "$work/piece."
    echo "    location = $1 {"
    for piece in "$work"/piece.*; do
        printf "      set \$%s '%s';\n" "${piece##*.}" "$(sed -z "s/[\\\\']/\\\\&/g; s/\r/\\\\r/g; s/\n/\\\\n/g" "$piece")"
        all+="\$${piece##*.}"
    done
    # A single piece needs no variable.
    if [ "$(wc -c <"$2")" -le 2000 ]; then all=$(sed -z "s/[\\\\']/\\\\&/g; s/\r/\\\\r/g; s/\n/\\\\n/g" "$2"); fi
    echo "      return 200 '$all'; }"
}
proxy_port=$(free_port 18890)
{
    echo "worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log;"
    echo 'events { worker_connections 1024; }'
    echo 'http { access_log off; keepalive_requests 1000000000; server_tokens off; default_type application/json;'
    for name in client_body proxy fastcgi uwsgi scgi; do echo "${name}_temp_path $work/$name;"; done
    echo "$head"
    echo "  server { listen 127.0.0.1:$proxy_port;"
    answer /chain/height "$work/height"
    answer /chain/last-block "$work/last"
    answer /account/get "$work/account"
    answer /transaction/get "$work/transaction"
    answer /account/transfers/all "$work/transfers"
    answer /block/at/public "$work/block"
    answer /mosaic/definition/page "$work/mosaics"
    answer /metrics "$work/metrics"
    echo '} }'
} >"$work/nginx.conf"
nginx -p "$work" -c "$work/nginx.conf" -g 'daemon off;' &
proxy=$!
nginx_url=http://127.0.0.1:$proxy_port
curl -sf --retry 50 --retry-connrefused --retry-delay 1 "$nginx_url/chain/height" >/dev/null
worker=$(pgrep -P "$proxy")

cat >"$work/post.lua" <<LUA
wrk.method = "POST"
wrk.body = '{"height":$height}'
wrk.headers["Content-Type"] = "application/json"
LUA

fresh() { # prints a script by which wrk requests a path with a counter
    echo "local n = 0; request = function() n = n + 1; return wrk.format(nil, '$1&n=' .. n) end" >"$work/fresh.lua"
    echo "$work/fresh.lua"
}

ticks() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f12,13 | tr ' ' '+' | bc; }

measure() { # name, process, URL, further arguments of wrk; sets rate and cpu
    local process=$1 url=$2 before after out
    shift 2
    before=$(ticks "$process")
    out=$(wrk -t1 -c64 "-d$duration" "$@" "$url")
    after=$(ticks "$process")
    if grep -E 'Non-2xx|Socket errors' <<<"$out"; then echo "$url failed"; exit 1; fi
    rate=$(awk '/^Requests\/sec:/ {print $2}' <<<"$out")
    cpu=$(awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" \
        '/ requests in / {printf "%.4f", ticks / hz / $1 * 1000}' <<<"$out")
}

same() { # both servers must send the same body
    cmp <(curl -sf "${@:2}" "$nisd_url$1") <(curl -sf "${@:2}" "$nginx_url$1")
}

compare() { # path, file with the body, further arguments of wrk
    local path=$1 body=$2 nisd_rate nisd_cpu ratios=''
    shift 2
    echo
    echo "$path, $(wc -c <"$body") bytes"
    echo 'round   nisd req/s  nginx req/s   ratio   nisd CPU s/1000  nginx CPU s/1000   ratio'
    for round in $(seq "$rounds"); do
        measure "$node" "$nisd_url$path" "$@"
        nisd_rate=$rate nisd_cpu=$cpu
        measure "$worker" "$nginx_url$path" "$@"
        awk -v r="$round" -v a="$nisd_rate" -v b="$rate" -v c="$nisd_cpu" -v d="$cpu" 'BEGIN {
            printf "%5d   %10.0f  %11.0f   %5.2f   %15.4f  %16.4f   %5.2f\n", r, a, b, a / b, c, d, c / d }'
        ratios+="$(awk -v a="$nisd_rate" -v b="$rate" 'BEGIN {print a / b}')"$'\n'
    done
    printf 'median ratio of requests: %.2f\n' "$(printf %s "$ratios" | sort -g | sed -n "$((rounds / 2 + 1))p")"
}

account_path="/account/get?address=$(jq -r .account.address "$work/account")"
for path in /chain/height /chain/last-block "$account_path" "$transaction" "$transfers" "$mosaics"; do same "$path"; done
same /block/at/public -H 'Content-Type: application/json' -d "{\"height\":$height}"
echo "machine: $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg); $(nginx -v 2>&1)"
compare /chain/height "$work/height"
compare /chain/last-block "$work/last"
compare "$account_path" "$work/account"
compare "$transaction" "$work/transaction"
compare "$transfers" "$work/transfers"
compare /block/at/public "$work/block" -s "$work/post.lua"
compare "$mosaics" "$work/mosaics"
for path in "$account_path account" "$transaction transaction" "$transfers transfers" "$mosaics mosaics"; do
    read -r path body <<<"$path"
    echo
    echo 'anew:'
    compare "$path" "$work/$body" -s "$(fresh "$path")"
done
compare /metrics "$work/metrics"
