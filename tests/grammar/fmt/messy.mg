# RUN: %front fmt %s | diff - %S/messy.expected
# RUN: %front fmt %S/messy.expected | diff - %S/messy.expected
# RUN: %front roundtrip %s
dim a=3,b   =  4*a      # sizes  


# a block
block f ( x[a] ,y , along s,over d, eps=, theta=-1e-4,causal){ # opens
# inside
w:param[a,b]~normal(0.02/sqrt(2*a)) as "w.weight"[(b   a)]
bias : param[b] = -(1) as "b"
part:param[a,b]=1 as "c"[(a b)at   a*(b+1)]
gain : param[] = 1 / 2
tower:block   g as "t.{}" # shared
other : block g
tail:block g as "u" follows tower by 1-  1/step( )
copy :block g follows  other
every 10 # now and then

# after a gap

x=x@w over(a) @ w over ( a,b ) # trailing
x=x[a=0 ..b,a=2*b  -1 , b=1 .. 3->a,a->( b,c ),(b,c)->a,a-b]
  return f(((x+1)*y)[x->y,x], # moves up
   along (s,t),over(d),k=2 where r<=1) as "p" # close
}
block g(t:token(a), u [b]:token(a)) { x , y=h(t)  return t,u+1 } const c=1,
d=2
model m(t[a,b]:token(a)){ dim q=a
repeat a as "l.{}"{repeat b{x=x

}

# last
}
  metric   seen =mean( x )  # beside the loss
}
train{optimizer adamw(betas=(0.9,5e-1)) clip 1}
train g where "a.*" ,rank>=2,b{optimizer sgd()
 lr 1}
layout{ device h100 x 8
mesh tp=1,dp=2
a,b->tp,dp(zigzag,k=1f1b)
l->pp(schedule = zb - h1,stages=[ 2,l-2 ,0])
state->dp
pad a to 5,b to 6
assert peak<76   GB,e<=10%,s<5 ms
recompute auto
offload state,masters->host
microbatch 1} # end
layout n:default{}
setting 0<=rho<1 # its range
setting  warm
optimizer  own( betas=(0.9,0.99),rho = -5e-1,warm=1 ){ state m=0.5 , n as "nn" where rho!=0
state row[ rows ]=-1,one[]  # shapes
 rest   adamw
p=p-lr*(g+m)}
# the end
